// Package cgroup owns the control groups of agents: it makes them, limits
// them, counts what they use, kills everything in them and removes them, on
// pure cgroup v2, on v1 and on hybrid hosts.
//
// A [Host] says what this machine has; a [Group] is one named cgroup in all
// hierarchies at once. Nothing is kept in memory between calls: the kernel is
// asked every time, so that a daemon that did not make a group (it was made
// by a shim that has died since) can list it, kill it and remove it.
//
// The package is pure Go and needs no container library. It knows paths and
// processes and no agent, starts no process, and never touches a group it was
// not given by name. It refuses to work on the root of a hierarchy, and to
// kill a group in which the calling process itself sits.
//
// There are no locks. One writer per group is the caller's business.
package cgroup
