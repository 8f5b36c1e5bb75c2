// Package receipt owns the receipts of a workspace: append-only logs of what happened to its agents,
// in which each entry contains the hash of the one before. It decides which events are recorded and
// in which log, and finds the first entry that was changed, removed or inserted.
//
// A workspace has a log of its own and one for each agent. What an agent can cause at will (refusals,
// questions, opens) is in the agent's log, so that a flood displaces only the agent's own entries;
// the log of the workspace has the heads of the others, so that one that was cut or replaced is
// found.
//
// An entry is one line, "HASH JSON": HASH is the SHA-256 of the hash of the entry before, a newline
// and JSON. The hash before the first entry is 64 zeros. Files are named by the number of their first
// entry; each begins with a header that has the hash before it, so that the chain continues across
// files. When a log exceeds its limit, the oldest files are removed, after an entry that names the
// last one of them and its hash.
//
// What a crash left of an entry is cut at the next start, which an entry reports. A line that is
// complete is never changed or removed. The chain shows a change to anyone who has noted a later
// hash; a process that can write the whole log can also make another one.
//
// The package knows no agent beyond its name. It never delays an event: a log that cannot be written
// keeps a bounded number of entries in memory, and then counts those it drops. Whether operations are
// refused meanwhile is the caller's decision (Recorder.Fault).
//
// Lock order: Recorder.mu, then Store.mu, then Log.mu. The mutex of the intake is a leaf.
package receipt
