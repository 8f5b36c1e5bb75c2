// Package mergeflow keeps the signals of requests to merge (seed 004, "Signal Flow Design"): ready,
// then merged, failed or withdrawn, correlated by an ID.
//
// A [Book] is plain memory. Its caller saves it in one file with the merge queue, publishes what
// [Book.Unpublished] returns after the save, and reports what was published: so every state is
// published at least once, also after a crash. What was merged or has failed never changes, and each
// call may be repeated. The number of signals is bounded. A [Recorder] records the results of requests
// and publishes the signals. A [Reworker] gives a failed request to an agent, once, also after a
// crash. The package runs nothing itself and knows an agent by its name.
//
// Lock order: Reworker.mu or Recorder.announcing, then Book.mu, which is a leaf.
package mergeflow
