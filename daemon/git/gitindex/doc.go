// Package gitindex reads git's index (gitformat-index(5)), compares two of them, and writes one that
// has a part of the entries of another.
//
// An index is data that an agent writes: Parse accepts versions 2 to 4 with a valid checksum and
// sorted entries, and rejects everything that makes the file incomplete by itself (a split or a
// sparse index). The caller bounds its size. The package is pure: it opens no file and runs no git.
package gitindex
