// Package agent adds, starts, stops and removes agents, keeps their states, and decides which
// transitions are allowed.
//
// What the kernel and git have to do for an agent is behind Resource, Shims and Repo, which
// package daemon supplies: this package imports no package that changes the kernel. It imports the
// types that both sides share: the settings and the state of a shim (api/wire), its client
// (shim/dial), rules (fusefs/policy), names of refs (git) and the capabilities of the machine
// (isolation).
//
// Lock order: Agent.op (one operation per agent at a time), then Manager.mu (maps and fields;
// never held during the operation of a resource).
package agent
