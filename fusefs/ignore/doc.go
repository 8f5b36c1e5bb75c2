// Package ignore says which paths of a worktree are none of the repository's
// business: git ignores them and tracks neither them nor anything below them.
// Such paths take no lease. What the target or another agent's branch tracks
// (package pathset) is never one of them.
//
// It reads .gitignore files of all levels, info/exclude and the index of the
// worktree by itself, below descriptors, without following links and within
// bounds, because all of them are written by agents. Whatever cannot be read or
// understood counts as not ignored: the cost is a lease, never a lost one.
//
// It runs no git, holds no policy and writes nothing. Lock order: Matcher.mu
// and Matcher.memoMu are leaves; neither is held during I/O.
package ignore
