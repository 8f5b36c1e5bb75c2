// Package delegate decides what a worker may do: an agent that another agent, or a person, makes
// for one task.
//
// It owns the comparison of a worker's rules and limits with its parent's. A worker of an agent
// gets at most what the agent has: rules for paths are intersected, egress and host ports are a
// part of the parent's, and no limit is higher. What cannot be compared is refused. It is pure: it
// makes no agent, reads no configuration and holds no lock.
package delegate
