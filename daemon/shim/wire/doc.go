// Package wire is the protocol between polisd (or polisctl) and a shim: the
// spec a shim is started with, the types of its HTTP API on a unix socket and
// the frames of an attached terminal. It is versioned: a newer daemon talks
// to an older shim, so fields are only ever added. It opens nothing itself and holds no state.
package wire
