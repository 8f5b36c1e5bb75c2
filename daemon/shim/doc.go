// Package shim serves one agent: it serves the agent's view, is the parent of its sandbox, keeps
// its terminal and log, and forwards its ports, in a process of its own, so that neither a
// restart nor a crash of polisd affects the agent.
//
// It owns the mounts, the sandbox and the sockets of one agent and removes them when it ends. It
// never decides what is allowed: rules come in the spec, leases from lockd. It is the only
// package that joins the file system, lock and sandbox leaves.
//
// Lock order: session.mu, then nothing; ports.mu, then nothing; Shim.doneMu, then Shim.mu, then the
// lock of the queue of questions. No lock is held while calling into a leaf; Shim.doneMu is held while
// the end of a task is written to disk.
package shim
