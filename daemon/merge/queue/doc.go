// Package queue decides in which order branches are merged, and merges them: one
// batch at a time per workspace, checked before the target moves.
//
// Queue is the order and nothing else. BatchMerger merges a batch on top of the
// target, runs the check on the result, finds the branch that fails it by
// bisection, and moves the target. Worker is the one goroutine of a workspace
// that does so as long as the queue is not empty.
//
// It knows an agent by its name only, runs no git and no command itself
// (package merge and the Checker do), and never resolves a conflict. An entry stays
// in the Queue, and so in the saved state, until its outcome has been recorded:
// after a crash it is merged, or found merged.
//
// Lock order: Worker.mu is a leaf; nothing is called while it is held.
package queue
