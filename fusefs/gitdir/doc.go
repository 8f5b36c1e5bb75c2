// Package gitdir is the guard of the shared git directory: plain git works in
// an agent's worktree, and no agent can harm another's branches, the target
// branch, the configuration or the objects. Objects are only added, and only
// under the name their content hashes to; refs have owners; what tools keep
// beside them is each agent's private copy (a second backing root).
//
// It looks at names and, before something is published, at content. It never
// runs git, and never follows a path: everything is below the descriptor it was given. One mutex guards
// its sets; no I/O happens under it.
package gitdir
