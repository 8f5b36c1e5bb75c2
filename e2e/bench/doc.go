// Package main is the benchmark behind "make bench": the same work on the
// native file system, in an agent's view, through a server that does nothing (the
// floor, package nullfs), through bindfs and through go-fuse's
// loopback example, interleaved, in the same sandbox by the same processes.
//
// It owns a directory on a real file system with everything in it, and takes
// that away again. It drives polis as a user does, through polisctl, and
// imports nothing of it. Figures are for people: no figure fails it.
package main
