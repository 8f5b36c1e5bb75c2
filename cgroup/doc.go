// Package cgroup owns the control groups of agents: it makes them, limits
// them, counts what they use, kills everything in them and removes them, on
// pure cgroup v2, on v1 and on hybrid hosts.
//
// A [Host] lists the hierarchies of this machine; a [Group] is one named cgroup
// in all of them at once. Nothing is kept in memory between calls: every call
// reads the kernel's state, so that a daemon that did not create a group (a shim
// that has died since did) can list it, kill it and remove it.
//
// The package is pure Go and needs no container library; docs/architecture.md has the
// measurements. It knows paths and
// processes and no agent, starts no process, and never touches a group it was
// not given by name. It refuses to work on the root of a hierarchy, and to
// kill a group that contains the calling process.
//
// There are no locks. The caller must ensure one writer per group.
package cgroup
