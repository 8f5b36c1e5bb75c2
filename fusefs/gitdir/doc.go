// Package gitdir is the guard of the shared git directory: plain git works in
// an agent's worktree, and no agent can harm another's branches, the target
// branch, the configuration or the objects. Objects are only added, and only
// under the name their content hashes to, and trees only if git checks them out
// (package fsck; what is in packs is checked when it is merged); refs have owners; what tools keep
// beside them is each agent's private copy (a second backing root).
//
// Git's own lock files stand for locks of a table that all agents share (see
// Locker): the lock is taken before the file is made, and given back when it
// goes. Run removes the files whose process has ended or keeps them for too
// long; Recover those of a server that was killed.
//
// It checks names and, before an object is published, its content. It runs no
// program: Packs reads packs for it. It never follows a path: everything is
// below the descriptor it was given. One mutex guards its sets, and the
// journal's comes before it; no I/O happens under it.
package gitdir
