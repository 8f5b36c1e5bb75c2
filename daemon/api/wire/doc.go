// Package wire is the protocol between polisd (or polisctl) and a shim: the spec that a shim is
// started with, the types of its HTTP API on a unix socket, and the frames of an attached terminal.
// The protocol has versions: a newer daemon talks to an older shim, so fields are only ever added.
// The package opens nothing and holds no state.
package wire
