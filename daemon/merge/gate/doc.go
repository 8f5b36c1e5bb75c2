// Package gate decides whether what an agent committed may be merged into the target
// branch, or pushed to a remote. The view enforces the agent's rules when a file is opened; git's own plumbing (update-index --cacheinfo, commit-tree) can
// record any path without opening it. Here the result is compared with the rules
// once more, name by name, before it counts.
//
// It owns the rules of that comparison (Rules) and the reading of what changed
// (Changes). What counts as the agent's is every path in which the tree that
// would become the target's differs from the target, regardless of who wrote it first.
//
// It moves no ref, writes no object, and queries no person. It holds no lock.
package gate
