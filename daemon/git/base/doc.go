// Package base owns base trees: the files of a commit, checked out once and shared by all agents
// that start from it. An agent's worktree is a base tree below, and the agent's own changes above
// it (package worktree); the base itself never changes.
//
// A base is identified by the object id of its git tree, so commits with the same files share it.
// It is a directory of <dir>/<id>: tree (the files, owned by the workspace's user), index (a git
// index with the stat data of those files, which every new worktree gets a copy of, so that its
// first git status reads no file) and record, which is written last and makes the base valid.
// <id>.new is a base that is being made. A killed polisd leaves it, and the next Use continues it:
// git compares what is there and writes the rest.
//
// What protects a base: only root can search <dir>; the kernel reads it as the lower layer of
// an overlay, through a read-only mount; no file in it has a name elsewhere (no hard links). A
// change by root is found by Verify and Check, which read every file. The files of a new base are
// not synced to the disk: a base that was made before the last reboot, and not synced since, is
// checked before its first use.
//
// Which bases are in use is not stored here: the caller reads it from what names them.
//
// Lock order: the lock of one id; nothing else is held. The package never mounts anything, and
// knows no agent.
package base
