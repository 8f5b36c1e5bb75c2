// Package overlay finds where an object of a view lives: in the main backing root,
// in a private root, in the lower root that shows through, or in a store of inodes that other
// views link too.
//
// It owns the descriptors of the roots, a bounded cache of directory descriptors
// and the staging directory. It resolves a name to the descriptor of its directory
// (At, AtNew), opens and stats inodes by their names (Open, Stat), merges listings
// (List), and makes what is shared the view's own before it is changed (CopyUp),
// removed (WhiteOut) or moved (CopyUpMoved, WhiteOutMoved). It is the one place that
// knows of the lower root: the caller asks IsLower, Merges, MayAppear and
// Place.Lower.
//
// Nothing is ever written to the lower root or to an inode of the store. A name is
// recorded as removed before it is removed, and a copy is complete before it
// takes its place, so a crash brings nothing back and loses nothing. A copy is made in the
// staging directory, or without a name if that is on another mount than the tree.
//
// It calls no guard: the caller has done that. It knows the open files of an inode
// only to let them continue with the copy.
//
// Lock order: as in package fusefs. Methods with that comment are called with the
// name lock (inode.Table.Names) held; those that copy take it themselves. The mutex of
// the directory cache is innermost.
package overlay
