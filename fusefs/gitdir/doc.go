// Package gitdir is the guard of the shared git directory. Plain git works in an agent's worktree,
// and no agent can harm another agent's branches, the target branch, the configuration or the
// objects. Objects are only added, and only under the name that their content hashes to; trees
// only if git checks them out (package fsck; trees in packs are checked at the merge). Refs have
// owners. The files that tools keep beside them are each agent's private copy (a second backing
// root).
//
// Git's own lock files stand for locks of a table that all agents share (see Locker): the guard
// takes the lock before the file is made and releases it when the file is removed. Run removes
// lock files whose process has exited or that exist for too long. Recover removes those of a
// server that was killed.
//
// It checks names and, before an object is published, its content. It runs no program: Packs reads
// packs for it. It never follows a path: everything is below the descriptor that it was given. One
// mutex guards its sets; the journal's mutex is taken before it. No I/O happens under the guard's
// mutex.
package gitdir
