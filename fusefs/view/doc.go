// Package view is the guard of an agent's worktree. It decides about every gated file system
// operation, in the order validate, policy, lease, and counts the results. Why keeps the last
// refusals for the agent.
//
// It knows the rules (package policy) and requests leases through the one-method interface Locker.
// It reads directory listings, to prove that a directory may be moved, and the marks of temporary files (package
// tempfile), which it also sets and removes. It never performs the I/O that it decides about, never runs git and never opens a path outside
// RootFD.
//
// Lock order: the mutexes of Guard's limiter, of Why and of the table of temporary files are leaves. None is held while Locker,
// Asker, OnDenial or Ignore is called.
package view
