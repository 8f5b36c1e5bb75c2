// Package timeline owns the snapshots of one workspace: their records, the contents they need
// (package cas) and the restore of an agent's files. It decides what a snapshot covers, when an
// old one is removed, and in which order a restore happens.
//
// A snapshot exists when its record does: contents are durable before it is written. A restore
// first makes a snapshot of the state that it replaces, takes the leases of every path that it
// changes, and notes what it is about to do; Resume completes a restore that a crash interrupted.
// Content that no record needs is removed by Collect, and only if every record can be read.
// A checkpoint is a snapshot that is made by itself. It continues a series: its list of files is that of
// an earlier one and what differs, and the set of paths that the view keeps names what must be read
// (capture). If the set does not know, the whole tree is read, and the record has the reason.
//
// It starts no process, runs no git and knows an agent by its name only. What it needs of agents is
// in Host: to hold one still, to reach its files below its view, and its leases.
//
// An agent may use the part of it that Own has. What it makes is bounded (makeRoom); how often, its shim
// decides.
//
// Lock order: the hold of the agent (Host.Hold), then the turn of the store (package cas), then the freeze
// (Still), then the mutex of the records. So an agent is frozen only while its files are read, and one
// that begins a task, and is held, waits for no other operation of itself.
package timeline
