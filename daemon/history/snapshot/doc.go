// Package snapshot describes the state of a directory tree and compares and restores it. It owns the
// format of a manifest: one line for each file, symbolic link and directory, in the order of the
// bytes of their paths, and the two hashes that are derived from it.
//
// The content hash is that of seed 002: the SHA-256 of the lines
//
//	path:sha256
//
// of all regular files. The metadata hash beside it covers what the seed leaves out: permission
// bits, symbolic links, directories and extended attributes of users. Both depend on nothing but the
// tree: neither on the machine, the file system, the order in which the files were made, nor on
// their owners and times.
//
// Scan reads a tree that a hostile process may have written, and Apply changes one: both follow no
// symbolic link, cross no mount and leave the tree by no name. Neither takes a lease or freezes a
// process: the caller sees to it that the tree is still. The package knows no agent and no git.
package snapshot
