// Package worktree owns what git keeps on disk for a workspace: the shared bare
// repository, one worktree and branch per agent, and saved work (the trash).
//
// Up makes it from the user's project, Sync brings the project's new commits in,
// Add and Remove make and remove worktrees, Status reads one, Save stores
// everything in it under a trash ref and Restore restores it.
//
// It never changes the user's project (package merge does, under its own
// rules), never mounts anything and knows no agent beyond a name. It never
// destroys the only copy of work: files that are in the way are moved to
// .polis/trash. It never follows a path that an agent can change: what is in an
// agent's part of the git directory (HEAD, gitdir, commondir, index) is data to
// check, and the files of a worktree are reached below a directory descriptor,
// without symlinks and without the view that covers them.
//
// Lock order: the lock of a workspace's agent name (in this package), then a ref
// lock (Locks), then git's own lock files. Nothing is held while another name's
// lock is taken.
package worktree
