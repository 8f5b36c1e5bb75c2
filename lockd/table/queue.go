package table

import (
	"fmt"
	"slices"
	"time"
)

// waiter is a request, in the queue of its workspace or on its way there.
type waiter struct {
	Request
	id       WaitID
	since    time.Time
	deadline time.Time
	recalls  bool // waits for a delegation to be returned
}

// patience is the shortest wait among the keys at the given indices, or among
// all keys when there are none.
func (w *waiter) patience(keys []int) time.Duration {
	d := time.Duration(-1)
	for i, k := range w.Keys {
		if (keys == nil || slices.Contains(keys, i)) && (d < 0 || k.Wait < d) {
			d = k.Wait
		}
	}
	return d
}

// blocked returns the indices of the keys that conflict with a lease of another holder.
func (t *Table) blocked(sp *space, w *waiter) []int {
	var out []int
	for i, k := range w.Keys {
		t.conflicts(sp, &w.Request, k, func(*lease) bool {
			out = append(out, i)
			return false
		})
	}
	return out
}

// conflicts calls fn with the leases of others that conflict with k. What the requester has on
// the path already and k become one lease, so both together must not conflict.
func (t *Table) conflicts(sp *space, r *Request, k Key, fn func(*lease) bool) {
	if l := t.held(sp, r, k); l != nil {
		k.Tree = k.Tree || l.Tree
		if l.Mode == Write {
			k.Mode = Write
		}
	}
	p := placeOf(k.Path, k.Tree)
	sp.root(p).conflicts(p, r.Holder, k.Mode, fn)
}

// behind reports whether w must stay behind one of the earlier waiters.
//
// It must where it would prolong the earlier one's wait: they want conflicting things of a key
// that is blocked for the earlier one right now. It need not for a key that is free for the
// earlier one, which waits for another key (a waiter reserves nothing), nor if the earlier one
// waits for w's holder itself: that would be a deadlock.
func (t *Table) behind(sp *space, w *waiter, earlier []*waiter) bool {
	for _, e := range earlier {
		if e.Holder == w.Holder {
			continue
		}
		for _, ek := range e.Keys {
			if !overlaps(w, ek) {
				continue
			}
			kept, mine := false, false
			t.conflicts(sp, &e.Request, ek, func(l *lease) bool {
				kept = true
				mine = l.Holder == w.Holder
				return !mine
			})
			if kept && !mine {
				return true
			}
		}
	}
	return false
}

func overlaps(w *waiter, ek Key) bool {
	ep := placeOf(ek.Path, ek.Tree)
	for _, k := range w.Keys {
		if conflicting(k.Mode, ek.Mode) && placeOf(k.Path, k.Tree).overlap(ep) {
			return true
		}
	}
	return false
}

// enqueue puts w at the end of the queue and notifies the holders it waits for.
func (t *Table) enqueue(sp *space, w *waiter) (Result, error) {
	if n := t.queued[w.Holder]; n >= t.MaxWaiters {
		return Result{}, fmt.Errorf("%d requests of %s wait already: %w", n, w.Holder, ErrLimit)
	}
	t.lastWait++
	w.id = t.lastWait
	t.waiting[w.id] = w
	t.queued[w.Holder]++
	sp.queue = append(sp.queue, w)
	t.alarm(w.deadline)
	t.recallInWay(sp, w)
	t.notifyHolders(sp, w)
	return Result{Wait: w.id}, nil
}

// notifyHolders notifies the holders that w waits for.
func (t *Table) notifyHolders(sp *space, w *waiter) {
	notified := map[string]bool{}
	for _, k := range w.Keys {
		t.conflicts(sp, &w.Request, k, func(l *lease) bool {
			if l.delegation == nil && !notified[l.Holder] {
				notified[l.Holder] = true
				t.emit(Effect{Kind: Waiting, Wait: w.id, Lease: l.Lease, Request: w.Request, Holder: l.Holder})
			}
			return len(notified) < maxNotified
		})
	}
}

// maxNotified bounds how many holders are notified of one waiter.
const maxNotified = 64

// dequeue removes w; the caller reports how it ended.
func (t *Table) dequeue(w *waiter) {
	delete(t.waiting, w.id)
	if t.queued[w.Holder]--; t.queued[w.Holder] == 0 {
		delete(t.queued, w.Holder)
	}
	sp := t.spaces[w.Workspace]
	sp.queue = slices.DeleteFunc(sp.queue, func(o *waiter) bool { return o == w })
}

// refusal is the error of a request that is not granted now.
func (t *Table) refusal(sp *space, w *waiter) error {
	for _, k := range w.Keys {
		var by *lease
		t.conflicts(sp, &w.Request, k, func(l *lease) bool {
			by = l
			return l.delegation != nil // prefer a lease that lists show
		})
		if by != nil {
			return conflictOf(k, by)
		}
	}
	return ErrGrace
}

func (t *Table) refuse(w *waiter, err error) {
	t.dequeue(w)
	t.emit(Effect{Kind: Refused, Wait: w.id, Request: w.Request, Holder: w.Holder, Err: err})
}

// pump grants, in order of arrival, what can be granted now.
func (t *Table) pump(workspace string) {
	sp := t.spaces[workspace]
	if sp == nil {
		return
	}
	for i := 0; !t.grace.active && i < len(sp.queue); {
		w := sp.queue[i]
		if t.blocked(sp, w) != nil || t.behind(sp, w, sp.queue[:i]) {
			i++
			continue
		}
		t.admit(sp, w)
	}
	t.resumeWaiters(sp)
	t.tidy(workspace)
}

// admit grants a queued request.
func (t *Table) admit(sp *space, w *waiter) {
	t.dequeue(w)
	t.emit(Effect{Kind: Granted, Wait: w.id, Leases: t.grant(sp, w), Request: w.Request, Holder: w.Holder})
}

// Cancel withdraws a queued request: it ends with a Refused effect carrying
// ErrCanceled. It returns false if the request has already ended.
func (t *Table) Cancel(id WaitID) bool {
	w := t.waiting[id]
	if w == nil {
		return false
	}
	t.refuse(w, ErrCanceled)
	t.pump(w.Workspace)
	return true
}
