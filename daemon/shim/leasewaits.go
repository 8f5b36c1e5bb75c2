package shim

import (
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
)

// leaseWaitShown is how long a lease is awaited before the agent counts as waiting.
const leaseWaitShown = 500 * time.Millisecond

// leaseWaits are the operations of an agent that wait for leases of others. Their number is
// bounded by what may wait at all. The zero value is ready to use.
type leaseWaits struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]leaseWait
}

type leaseWait struct {
	path  string
	since time.Time
}

// begin notes a wait until end is called.
func (w *leaseWaits) begin(path string) (end func()) {
	if w == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[uint64]leaseWait{}
	}
	w.last++
	id := w.last
	w.open[id] = leaseWait{path, time.Now()}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, id)
	}
}

// waiting is the longest wait; nil if there is none worth showing.
func (w *leaseWaits) waiting(now time.Time) *api.Waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first *api.Waiting
	n := 0
	for _, o := range w.open {
		if now.Sub(o.since) < leaseWaitShown {
			continue
		}
		n++
		if first == nil || o.since.Before(first.Since) {
			path, _ := approval.Bounded(o.path, 500)
			first = &api.Waiting{For: api.WaitingLease, Since: o.since.UTC(), Path: path, What: "a lock on " + path}
		}
	}
	if first != nil {
		first.Open = n
	}
	return first
}
