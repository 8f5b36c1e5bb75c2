// Package view is the guard of an agent's worktree: it decides about every
// gated file system call, in the order validate, policy, lease, and counts
// what came of it. Why keeps the last refusals for the agent to read.
//
// It knows the rules (package policy), asks for leases through the one-method
// interface Locker, and reads nothing but directory listings, and those only
// to prove that a directory may be moved. It never does the I/O it decides
// about, never runs git and never opens a path outside RootFD.
//
// Lock order: the mutexes of Guard's limiter and of Why are leaves; neither
// is held while Locker, Asker, OnDenial or Ignore is called.
package view
