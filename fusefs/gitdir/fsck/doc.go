// Package fsck implements the rules for git's trees: which entries git checks out, on every system
// that a clone can be on, and which a file system can store. The rules are those of git-fsck(1)
// (fsck.c and path.c of git), and limits of name, path and depth that git does not have.
//
// It reads a tree from a reader and returns an error. It never opens a file, never runs git, and
// keeps only a few names of a tree in memory.
package fsck
