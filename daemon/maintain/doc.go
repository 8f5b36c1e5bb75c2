// Package maintain keeps the repositories of a workspace small and quick: it packs loose
// objects and refs, joins small packs, writes the commit-graph, and removes
// loose objects that nothing needs and that have not been touched for a grace.
//
// It owns what may be removed. An object of the shared repository is needed if
// a ref there or in the internal repository (which borrows from it) reaches it,
// or a reflog, or what an agent's files name: its index, and any id in the small
// files of its git directory and of its private one (HEAD and its log, stashes,
// rebases and merges under way). An object of an agent's own is needed if those
// files lead to it. What is needed is found out twice, the second time while the
// exclusive lock keeps refs from moving; an object whose time was touched
// meanwhile stays.
//
// What an agent can write is read as data, file by file, and never by a git that
// looks for worktrees by itself: one that is damaged would end it for everybody.
// Of an agent whose files cannot be read, or lead to what is not there, nothing is
// removed that it might need, and all else goes on.
//
// It never runs for long with the lock: what takes time (packing, the walk
// through the history) is done before, where git's own rules make it safe
// beside commits. It knows no agent but by the names of directories, and runs git as the
// repository's owner.
package maintain
