package table

import (
	"cmp"
	"slices"
	"time"
)

// alarm requests a Tick at d or before.
func (t *Table) alarm(d time.Time) {
	if t.next.IsZero() || d.Before(t.next) {
		t.next = d
	}
}

// Next returns when Tick should be called, or false if no deadline is pending.
func (t *Table) Next() (time.Time, bool) { return t.next, !t.next.IsZero() }

// Tick processes what has become due: ends the grace period, drops sessions that stayed away,
// expired leases and requests that waited long enough.
func (t *Table) Tick() {
	now := t.Now()
	due := func(d time.Time) bool { return !d.After(now) }
	if t.grace.active && due(t.grace.until) {
		t.endGrace()
	}
	t.forgetSpent(now)
	for _, s := range t.sessions {
		if !s.live && due(s.lost.Add(t.StaleTimeout)) {
			t.end(s, WhyStale)
		}
	}
	t.remind(now)
	touched := map[string]bool{}
	for l := range t.expiring {
		if due(l.Expires) {
			t.drop(l, WhyExpired)
			touched[l.Workspace] = true
		}
	}
	for ws := range touched {
		t.pump(ws)
	}
	for _, w := range t.inOrder() {
		// An earlier time-out may have granted this one.
		if t.waiting[w.id] != nil && due(w.deadline) {
			t.timeout(w)
		}
	}
	t.rearm()
}

// timeout ends a wait. A request that only stood behind another waiter is granted: no request is
// refused because of a lease that does not exist.
func (t *Table) timeout(w *waiter) {
	sp := t.spaces[w.Workspace]
	if !t.grace.active && t.blocked(sp, w) == nil {
		t.admit(sp, w)
	} else {
		t.refuse(w, t.refusal(sp, w))
	}
	t.pump(w.Workspace)
}

func (t *Table) rearm() {
	t.next = time.Time{}
	if t.grace.active {
		t.alarm(t.grace.until)
	}
	for _, s := range t.sessions {
		if !s.live {
			t.alarm(s.lost.Add(t.StaleTimeout))
		}
	}
	for l := range t.expiring {
		t.alarm(l.Expires)
	}
	for l := range t.recalls {
		if !l.delegation.overdueReported {
			t.alarm(l.delegation.overdue)
		}
	}
	for _, w := range t.waiting {
		t.alarm(w.deadline)
	}
}

// inOrder returns all waiters, oldest first.
func (t *Table) inOrder() []*waiter {
	out := make([]*waiter, 0, len(t.waiting))
	for _, w := range t.waiting {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *waiter) int { return cmp.Compare(a.id, b.id) })
	return out
}
