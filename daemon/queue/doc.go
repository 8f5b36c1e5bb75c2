// Package queue decides in which order branches are merged, and has them
// merged: one batch at a time per workspace, checked before the target moves.
//
// Queue is the order and nothing else. BatchMerger merges a batch on top of the
// target, has the result checked, finds by halves who is to blame if the check
// fails, and moves the target. Worker is the one goroutine of a workspace that
// does so for as long as somebody waits.
//
// It knows an agent by its name only, runs no git and no command itself
// (package merge and the Checker do), and never resolves a conflict. An entry stays
// in the Queue, and so in the saved state, until what became of it has been told:
// after a crash it is merged, or found merged.
//
// Lock order: Worker.mu is a leaf; nothing is called while it is held.
package queue
