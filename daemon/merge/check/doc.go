// Package check runs the check command of [merge] on the result of a merge before
// the target moves.
//
// With merge.hooks, the git hooks of the project for merges run before the command, in the same sandbox.
//
// It owns the directories of a check: the tree of the commit, a home and a scratch
// directory of its own, the logs of the last checks. The command runs in a sandbox
// without network that a shim makes for it, with limits and an end, as the user the
// agents run as: what an agent wrote never runs outside of a sandbox. A check that a
// crash left behind is ended and removed before the next one.
//
// It never merges and never reads refs; package queue does, with the answer.
package check
