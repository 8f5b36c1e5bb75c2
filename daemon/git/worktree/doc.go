// Package worktree owns what git keeps on disk for a workspace: the shared bare
// repository, one worktree and branch per agent, and saved work (the trash).
//
// Up makes it from the user's project, Sync brings the project's new commits in,
// Add and Remove make and remove worktrees, Status reads one, Save stores
// everything in it under a trash ref and Restore restores it.
//
// A worktree is a full checkout, or layers: a base tree that agents share (package base) with the
// agent's changes above it. Then the worktree's own directory is the upper layer of an overlay, so it
// has .git and the agent's changes; .polis/layers/<agent> has the name of the base, the
// overlay's work directory and its mount point. That file decides: every access to the files goes
// through attach, which mounts the overlay if it is not mounted. If the setup command of the project
// made files for the base, the worktree has them as another layer, below the base; a file there names
// them, and the worktree is whole without them. The record of the base is removed after the changes, never
// before: without it, they would be taken for all files, and the others for deleted.
//
// The base may be that of a near commit (nearBase): then the changes have what differs from the first on.
//
// Git over such a worktree reads what can differ (changeSet), and all of it only if that is not known.
// The answers are the same. A fork of it is a copy of the upper layer (CopyLayers).
//
// It never changes the user's project (package merge does, under its own
// rules), mounts nothing but layers (through Mounts) and knows no agent beyond a name. It never
// destroys the only copy of work: files that are in the way are moved to
// .polis/trash. It never follows a path that an agent can change: what is in an
// agent's part of the git directory (HEAD, gitdir, commondir, index) is data to
// check, and the files of a worktree are reached below a directory descriptor,
// without symlinks and without the view that covers them.
//
// Lock order: the lock of a workspace's agent name (in this package), then a ref
// lock (Locks), then the lock of an agent's mount, then that of a base (package base), then git's
// own lock files. Nothing is held while another name's
// lock is taken.
package worktree
