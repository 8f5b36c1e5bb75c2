// Package policyrecord stores what agents in record mode used: paths of the repository that they read and
// changed, names that they resolved, and what was refused.
//
// A run is one life of an agent's shim. Each run is a file of lines in the directory of the agent's
// receipts, and is removed with them. What a line adds is durable before the shim may forget it. A
// line that a crash left incomplete is cut off; the shim sends its content again.
//
// Everything is bounded, whatever an agent does: a run has a policylearn.Set, which becomes coarser
// when it is full, and at most MaxNames names; an agent has at most MaxRuns runs, of which the oldest two become
// one when there are more. What is coarse, dropped or cut off is reported by Record.Incomplete.
//
// The package knows no rules and no agent's state. Lock order: one mutex, which is held for the
// write of a batch.
package policyrecord
