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

// blocked returns the indices of the keys that a lease of another holder is
// in the way of.
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

// conflicts calls fn with the leases of others that are in the way of k. What
// the requester has on the path already and k become one lease, so it is the
// two together that must not meet anything.
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

// behind says whether w must stay behind one of the earlier waiters.
//
// That is so where it would prolong the earlier one's wait: they want
// conflicting things of a key that the earlier one is kept from right now. It
// is not so for a key the earlier one could have but for another key (a
// waiter reserves nothing), nor if w's holder is itself who is waited for:
// behind one's own waiter there is no getting on.
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

// enqueue puts w at the end of the queue and tells those it waits for.
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
	t.tellHolders(sp, w)
	return Result{Wait: w.id}, nil
}

// tellHolders tells those that w waits for.
func (t *Table) tellHolders(sp *space, w *waiter) {
	told := map[string]bool{}
	for _, k := range w.Keys {
		t.conflicts(sp, &w.Request, k, func(l *lease) bool {
			if l.delegation == nil && !told[l.Holder] {
				told[l.Holder] = true
				t.emit(Effect{Kind: Waiting, Wait: w.id, Lease: l.Lease, Request: w.Request, Holder: l.Holder})
			}
			return len(told) < maxTold
		})
	}
}

// maxTold bounds how many holders hear of one waiter.
const maxTold = 64

// dequeue removes w; the caller says how it ended.
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
			return l.delegation != nil // rather a lease that is known
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
	t.goOn(sp)
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
