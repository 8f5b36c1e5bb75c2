// Package main is nullfs, a FUSE server for a tree that does not change. It has every answer ready
// in memory, serves reads only and decides nothing. Its cost is the minimum for a file server on a
// machine, with the same connection to the kernel as a view. The benchmark shows it as the floor.
// It has no other use.
package main
