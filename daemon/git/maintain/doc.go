// Package maintain keeps the repositories of a workspace small and quick: it packs loose
// objects and refs, joins small packs, writes the commit-graph, and removes
// loose objects that nothing needs and that have not been touched for a grace.
//
// It decides what may be removed. An object of the shared repository is needed if
// a ref there or in the internal repository (which borrows from it) reaches it,
// or a reflog, or what an agent's files name: its index, and any id in the small
// files of its git directory and of its private one (HEAD and its log, stashes,
// rebases and merges under way). An object of an agent's own is needed if those
// files lead to it. The needed objects are determined twice, the second
// time while the exclusive lock keeps refs from moving; an object whose time was
// touched meanwhile stays.
//
// Files that an agent can write are read as data, one by one, and never by a git
// that searches worktrees itself: a damaged one would make it fail for all agents.
// If an agent's files cannot be read, or name objects that do not exist, nothing
// is removed that this agent might need; the rest continues.
//
// A [Scheduler] decides when the maintenance of a workspace is due, runs one workspace at a time,
// and records each run. It owns one goroutine, which Close ends.
//
// A [Record] decides whether the shared repository is damaged, and what a damaged one means for the
// workspace: nothing is added, merged or maintained until a check finds it complete again. It owns the
// result of the last check, and reports a changed result once, as a log message and an event. An error
// that is not damage, such as a time-out, changes nothing. It repairs and removes nothing. Its lock is
// held for no call.
//
// It never holds the lock for long: packing and the walk through the history are
// done before, which git's own rules make safe beside commits. It knows agents
// only by the names of directories, and runs git as the repository's owner.
package maintain
