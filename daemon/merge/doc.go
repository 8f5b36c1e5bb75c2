// Package merge brings agents' branches to the target branch, one at a time per
// workspace, and reverts merges.
//
// It works without a checkout: git merge-tree computes the result, commit-tree
// makes the merge commit (always one, never a fast-forward), update-ref moves the
// target if it still is where the merge began. Before that the result is compared
// with the rules of the agent (package gate) and of git (package fsck). UpdateCheckout
// then fast-forwards the user's checkout, if that loses nothing: as a whole, or
// not at all.
//
// It never resolves a conflict, never touches a worktree of an agent, and never
// changes a file of the user's project that has uncommitted changes. It never
// runs a hook, a filter or a merge driver.
//
// Lock order: the Merger's own turn, then the ref lease of the target (Locks),
// then git's lock files.
package merge
