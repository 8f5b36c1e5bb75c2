// Package conflictwatch reports merge conflicts early: which paths more than one
// agent has changed since their branches left the target, who holds and awaits
// them, and which branches, tried two by two and with the target, conflict.
//
// A Watcher scans when a branch moved or the agents of its workspace change (package
// branches), and when Report is called; otherwise it is idle. It caches the
// result for two commits as long as both are branches' tips, so that one commit
// costs one branch's merges and not all. Worktrees are read only for Report, for
// uncommitted changes are in no event.
//
// It makes no merge commit, moves no ref, takes no lease and writes nothing into
// the shared repository: the objects of a trial merge are deleted. It runs git
// only as the workspace's owner (package git), below the views, one command at a
// time for all workspaces (Turn), each with a deadline, and pauses after every
// scan four times as long as that took.
//
// Lock order: Turn, then Watcher.mu, which is held for memory only. The fields
// below "the worker's" belong to the one goroutine that Open starts.
package conflictwatch
