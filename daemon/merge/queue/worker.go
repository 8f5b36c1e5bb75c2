package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/internal/failpoint"
)

const (
	maxRecent = 50 // outcomes that a Worker keeps
	maxPaths  = 100
	// saveAgain is the interval of attempts to save a change.
	saveAgain = 2 * time.Second
)

// Host is the part of the daemon that a Worker needs.
type Host interface {
	// Prepare returns the job of an entry. An error ends the entry.
	Prepare(ctx context.Context, e api.QueueEntry) (Job, error)
	// BatchMerger merges the next batch; size is how many go together.
	BatchMerger() (l *BatchMerger, size int)
	// Landed records the outcome of an entry, before the entry is forgotten.
	Landed(ctx context.Context, o Outcome) (api.QueueOutcome, error)
	// Save writes what Entries returns to the disk.
	Save() error
}

// Worker merges the queue of one workspace. Set the fields, Open, Close.
type Worker struct {
	Host Host
	Log  *slog.Logger
	Now  func() time.Time

	mu      sync.Mutex
	queue   Queue
	active  map[uint64]bool // being merged
	abandon context.CancelCauseFunc
	recent  []api.QueueOutcome
	waiting map[uint64][]chan result
	open    bool

	wake   chan struct{}
	cancel context.CancelCauseFunc
	done   chan struct{}
}

type result struct {
	outcome api.QueueOutcome
	err     error
}

var (
	errRemoved = errors.New("it was taken out of the queue")
	errClosed  = errors.New("polisd ends")
)

// Load restores the entries of the previous daemon. Call it before Open.
func (w *Worker) Load(entries []api.QueueEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.Load(entries)
}

// Open starts the worker.
func (w *Worker) Open(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open {
		return
	}
	ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	w.open, w.wake, w.done = true, make(chan struct{}, 1), make(chan struct{})
	w.wake <- struct{}{}
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
}

// Close ends the worker and waits for it. The running batch is merged, or waits for the next
// daemon; callers that wait for an outcome get an error.
func (w *Worker) Close() {
	w.mu.Lock()
	open := w.open
	w.open = false
	w.mu.Unlock()
	if !open {
		return
	}
	w.cancel(errClosed)
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq, cs := range w.waiting {
		for _, c := range cs {
			c <- result{err: api.Errorf(api.CodeUnavailable, "%w; the merge is kept in the queue", errClosed).WithHint("polisctl queue shows it when polisd is back")}
		}
		delete(w.waiting, seq)
	}
}

func (w *Worker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for ctx.Err() == nil && w.batch(ctx) {
		}
	}
}

// batch merges the first of the queue; false if it is empty.
func (w *Worker) batch(ctx context.Context) bool {
	batcher, size := w.Host.BatchMerger()
	w.mu.Lock()
	entries := w.queue.Next(max(size, 1))
	if len(entries) == 0 {
		w.mu.Unlock()
		return false
	}
	bctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.abandon, w.active = cancel, map[uint64]bool{}
	for _, e := range entries {
		w.active[e.Seq] = true
	}
	w.mu.Unlock()

	var jobs []Job
	for _, e := range entries {
		j, err := w.Host.Prepare(bctx, e)
		j.Entry = e
		if err != nil {
			w.landed(ctx, Outcome{Job: j, Err: err})
			continue
		}
		jobs = append(jobs, j)
	}
	batcher.Report = w.mark
	for _, o := range batcher.Land(bctx, jobs) {
		w.landed(ctx, o)
	}
	w.mu.Lock()
	w.abandon, w.active = nil, nil
	for _, e := range entries {
		w.queue.Mark(e.Seq, api.QueueWaiting) // those that are left
	}
	w.mu.Unlock()
	return true
}

func (w *Worker) mark(jobs []Job, s api.QueueState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range jobs {
		w.queue.Mark(j.Entry.Seq, s)
	}
}

// landed reports the outcome to the host, then to the waiting callers, and forgets the entry. The
// entry stays until the host has saved its outcome.
func (w *Worker) landed(ctx context.Context, o Outcome) {
	// What has happened is recorded also while the daemon stops.
	tctx := context.WithoutCancel(ctx)
	out, err := w.Host.Landed(tctx, o)
	for err != nil && ctx.Err() == nil {
		w.Log.Error("merge not recorded", "agent", o.Job.Entry.Agent, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(saveAgain):
		}
		out, err = w.Host.Landed(tctx, o)
	}
	if err != nil {
		return // the next daemon finds it in the queue, and merged
	}
	failpoint.Hit("queue:answered")
	out.ID, out.Agent, out.At, out.Tasks = o.Job.Entry.ID, o.Job.Entry.Agent, w.Now().UTC(), o.Job.Entry.Tasks
	out.Paths = out.Paths[:min(len(out.Paths), maxPaths)]
	seq := o.Job.Entry.Seq
	w.mu.Lock()
	w.queue.Done(seq)
	w.recent = slices.Insert(w.recent, 0, out)
	w.recent = w.recent[:min(len(w.recent), maxRecent)]
	w.answer(seq, result{outcome: out, err: o.Err})
	w.mu.Unlock()
	if err := w.Host.Save(); err != nil {
		w.Log.Error("merge queue not saved", "err", err) // the manager tries again
	}
}

// answer sends the result to the callers that wait for an entry. w.mu is held.
func (w *Worker) answer(seq uint64, r result) {
	for _, c := range w.waiting[seq] {
		c <- r
	}
	delete(w.waiting, seq)
}
