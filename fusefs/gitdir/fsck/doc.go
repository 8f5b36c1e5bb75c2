// Package fsck holds the rules for git's trees: which entries git will check
// out, on any system that a clone may live on, and which a file system can hold.
// They are those of git-fsck(1) (fsck.c and path.c of git), and limits of name,
// path and depth that git itself does not have.
//
// It is pure: it reads a tree from a reader and returns an error. It never opens
// a file, never runs git, and keeps no more of a tree in memory than a few names.
package fsck
