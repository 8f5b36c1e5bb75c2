// Package idmap shows a directory tree of root's as if it were another user's
// (idmapped mounts, mount_setattr(2)): what that user makes below it is root's
// on the disk, and what is root's there is that user's to read and change.
//
// It knows a path and a pair of ids, no agent and no rule. It mounts nothing
// anywhere: what Open returns is a descriptor of a detached mount, which goes
// with it. Set-id bits are not its business, and must be somebody's: who serves
// such a tree must not let the user set them (fusefs.Config.NoSetID).
package idmap
