// Package idmap shows a directory tree of root's as if it were another user's (idmapped mounts,
// mount_setattr(2)): what that user makes below it is root's on the disk, and what is root's
// there is that user's to read and change.
//
// It knows an open directory and a pair of ids, no agent and no rule. It mounts nothing anywhere: what Open
// returns is a descriptor of a detached mount, which goes with it. The caller must prevent the
// user from setting set-id bits in such a tree (fusefs.Config.NoSetID).
package idmap
