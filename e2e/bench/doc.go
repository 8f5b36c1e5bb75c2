// Package main is the benchmark of "make bench": the same work on the native file system, in an
// agent's view, through a server that does nothing (the floor, package nullfs), through bindfs and
// through go-fuse's loopback example. The same processes do it in the same sandbox, interleaved.
//
// It makes a directory on a real file system with everything that it needs, and removes it. It
// drives polis as a user does, through polisctl, and imports no package of polis. The figures are
// for people: no figure fails it.
package main
