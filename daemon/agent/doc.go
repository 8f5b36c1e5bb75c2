// Package agent knows agents and only the word resource: it adds, starts,
// stops and removes them, keeps their states and says what each transition
// may be. Everything the kernel or git has to do is behind Resource, Shims and Repo,
// which the daemon's hall supplies.
//
// Lock order: Agent.op (one operation per agent at a time), then Manager.mu
// (maps and fields; never held while a resource works).
package agent
