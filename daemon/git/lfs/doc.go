// Package lfs reads and copies the objects of Git LFS, without its program.
//
// It owns the form of pointers (git-lfs' docs/spec.md) and of the directory "lfs/objects", in which the name of a file
// is the SHA-256 of its content. An agent writes both, so a pointer and a name are data to check: Copy computes the sum
// while it copies, and nothing gets its name before the sum is that name. Paths are below descriptors, without symbolic
// links.
//
// It runs no program, knows no agent and no repository, and holds no lock. The caller decides with whose rights it is
// called.
package lfs
