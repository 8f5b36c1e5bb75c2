// Package main is nullfs: it serves a tree that does not change, for reading, and decides
// nothing: every answer is ready in memory. It is what an answer of any file
// server costs on a machine before it has done anything, with the same connection to
// the kernel that a view has. The benchmark shows it as the floor below the
// others; it is of no other use.
package main
