// Package maintain keeps a shared repository small and quick: it packs loose
// objects and refs, joins small packs, writes the commit-graph, and removes
// loose objects that nothing needs and that have not been touched for a grace.
//
// It owns what may be removed. An object is needed if a ref (also what was put
// aside, under refs/polis), a reflog, the index or the HEAD of any worktree
// reaches it, or if any small file of a worktree's git directory or of an
// agent's private one names it: stashes, rebases and merges under way. What is
// needed is found out twice, the second time while the exclusive lock keeps
// refs from moving; an object whose time was touched meanwhile stays.
//
// It never runs for long with the lock: what takes time (packing, the walk
// through the history) is done before, where git's own rules make it safe
// beside commits. It knows no agent, only directories, and runs git as the
// repository's owner.
package maintain
