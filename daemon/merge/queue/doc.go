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
// A [FlowBook] keeps the signals of requests to merge (seed 004, "Signal Flow Design"): ready, then merged,
// failed or withdrawn, correlated by an ID. It is plain memory. Its caller saves it in one file with the queue,
// publishes what [FlowBook.Unpublished] returns after the save, and reports what was published: so every state
// is published at least once, also after a crash. What was merged or has failed never changes. Each call may be
// repeated. The number of signals is bounded. A [Recorder] records the results of requests and publishes
// the signals. A [Reworker] gives a failed request to an agent, once, also after a crash.
//
// Lock order: Reworker.mu or Recorder.announcing, then FlowBook.mu. Worker.mu and FlowBook.mu are leaves;
// nothing is called while one is held.
package queue
