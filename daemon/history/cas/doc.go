// Package cas is a content-addressed store: it owns a directory of immutable objects, each in a
// file named by the SHA-256 of its content. Equal content is stored once. It knows no agent and no
// snapshot; its caller decides which objects are still needed (Batch.Sweep).
//
// A Batch adds objects. They are written to a directory of the batch, synced to the disk, and only
// then renamed: an object that has its final name is complete, also after a power failure. Open
// removes what an interrupted batch left. The content of an object is compared with its name each
// time it is read.
//
// The directory belongs to root and no agent can reach it. The package never follows a path below
// it that it did not make, and never changes an object.
//
// Lock order: the turn of a store (one batch at a time), then the mutex of a batch.
package cas
