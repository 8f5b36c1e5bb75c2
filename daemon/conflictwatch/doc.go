// Package conflictwatch says early what will not merge: which paths more than one
// agent has changed since their branches left the target, who holds and awaits
// them, and which branches, tried two by two and with the target, conflict.
//
// A Watcher looks when a branch moved (package refwatch), when the agents of its
// workspace change and when it is asked; with none of these it does nothing at
// all. What it found out about two commits it keeps as long as both are
// branches' tips, so that one commit costs one branch's merges and not all.
// Worktrees are looked at only when it is asked, for uncommitted changes
// are in no event.
//
// It never merges anything for good, moves no ref, takes no lease and writes
// nothing into the shared repository: what git computes is thrown away. It
// runs git only as the workspace's owner (package git), below the views, one
// command at a time for all workspaces (Turn), each with a deadline, and
// rests after every look four times as long as that took.
//
// Lock order: Turn, then Watcher.mu, which is held for memory only. The fields
// below "the worker's" belong to the one goroutine that Open starts.
package conflictwatch
