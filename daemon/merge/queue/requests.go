package queue

import (
	"context"
	"slices"

	"polis/daemon/api"
	"polis/internal/failpoint"
)

// Add puts an agent in the queue.
func (w *Worker) Add(e api.QueueEntry) (api.QueueEntry, error) {
	e, _, err := w.add(e, false)
	return e, err
}

// Submit puts an agent in the queue. wait returns the outcome; if its context ends first, the entry
// stays.
func (w *Worker) Submit(e api.QueueEntry) (wait func(context.Context) (api.QueueOutcome, error), err error) {
	e, c, err := w.add(e, true)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (api.QueueOutcome, error) {
		select {
		case r := <-c:
			return r.outcome, r.err
		case <-ctx.Done():
			return api.QueueOutcome{}, api.Errorf(api.CodeTimeout, "wait for the merge of agent %s: %w", e.Agent, context.Cause(ctx)).
				WithHint("it stays in the queue: polisctl queue shows it, polisctl queue remove %s takes it out", e.Agent)
		}
	}, nil
}

func (w *Worker) add(e api.QueueEntry, wait bool) (api.QueueEntry, chan result, error) {
	w.mu.Lock()
	var old uint64
	if i := w.queue.index(e.Agent); i >= 0 {
		old = w.queue.entries[i].Seq
	}
	e, err := w.queue.Add(e)
	var c chan result
	if err == nil && wait {
		c = w.await(e.Seq)
	}
	w.mu.Unlock()
	if err != nil {
		return e, nil, err
	}
	if err := w.Host.Save(); err != nil {
		w.mu.Lock()
		if e.Seq != old {
			w.queue.Done(e.Seq)
		}
		w.forget(e.Seq, c)
		w.mu.Unlock()
		return e, nil, err
	}
	failpoint.Hit("queue:added")
	w.poke()
	return e, c, nil
}

// await returns a channel that gets the result of an entry. w.mu is held.
func (w *Worker) await(seq uint64) chan result {
	if w.waiting == nil {
		w.waiting = map[uint64][]chan result{}
	}
	c := make(chan result, 1)
	w.waiting[seq] = append(w.waiting[seq], c)
	return c
}

// forget ends an await without a result. w.mu is held.
func (w *Worker) forget(seq uint64, c chan result) {
	left := slices.DeleteFunc(w.waiting[seq], func(o chan result) bool { return o == c })
	if len(left) == 0 {
		delete(w.waiting, seq)
		return
	}
	w.waiting[seq] = left
}

// Remove takes an agent out. If it is being checked, the check is cancelled.
func (w *Worker) Remove(agent string) (bool, error) {
	w.mu.Lock()
	i := w.queue.index(agent)
	if i < 0 {
		w.mu.Unlock()
		return false, nil
	}
	seq := w.queue.entries[i].Seq
	w.queue.Remove(agent)
	if w.active[seq] && w.abandon != nil {
		w.abandon(errRemoved)
	}
	w.answer(seq, result{err: api.Errorf(api.CodeNotFound, "agent %s: %w before it was merged", agent, errRemoved)})
	w.mu.Unlock()
	return true, w.Host.Save()
}

// Settled waits until no merge of an agent is half done: until then the target can have moved, and the
// outcome is not recorded. An entry that waits, or is being checked, is not waited for.
func (w *Worker) Settled(ctx context.Context, agent string) error {
	w.mu.Lock()
	i := w.queue.index(agent)
	if i < 0 || w.queue.entries[i].State != api.QueueMerging {
		w.mu.Unlock()
		return nil
	}
	seq := w.queue.entries[i].Seq
	c := w.await(seq)
	w.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		w.mu.Lock()
		w.forget(seq, c)
		w.mu.Unlock()
		return api.Errorf(api.CodeTimeout, "agent %s is being merged: wait for the outcome: %w", agent, context.Cause(ctx)).
			WithHint("polisctl queue shows when it is done; then try again")
	}
}

// Waits reports whether an agent is in the queue.
func (w *Worker) Waits(agent string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.index(agent) >= 0
}

// Prioritize gives an agent's entry another priority.
func (w *Worker) Prioritize(agent string, priority int) error {
	w.mu.Lock()
	err := w.queue.Prioritize(agent, priority)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return w.Host.Save()
}

// Entries are those that wait or are being merged, in order.
func (w *Worker) Entries() []api.QueueEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.List()
}

// Recent are the last outcomes, newest first.
func (w *Worker) Recent() []api.QueueOutcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.recent)
}

func (w *Worker) poke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake == nil {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
