package table

import (
	"slices"
	"time"
)

// grace is the time after a restart in which only earlier holders are served.
type grace struct {
	active   bool
	start    time.Time
	until    time.Time
	expected map[string]bool
	back     map[string]bool
}

// StartGrace begins a grace period of at most d: no new leases, only
// reclaimed ones.
func (t *Table) StartGrace(d time.Duration) {
	now := t.Now()
	t.grace = grace{active: d > 0, start: now, until: now.Add(d), back: map[string]bool{}}
	t.alarm(t.grace.until)
}

// Expect names the agents that are alive and will reclaim. The grace period
// then ends as soon as all of them have (or were dropped), and lasts
// StaleTimeout at most: until then an absent one may still write under its leases.
func (t *Table) Expect(agents []string) {
	if !t.grace.active {
		return
	}
	t.grace.expected = map[string]bool{}
	for _, a := range agents {
		if !t.grace.back[a] {
			t.grace.expected[a] = true
		}
	}
	t.grace.until = t.grace.start.Add(t.StaleTimeout)
	t.alarm(t.grace.until)
	t.returned("")
}

// InGrace reports whether the grace period lasts.
func (t *Table) InGrace() bool { return t.grace.active }

// Awaited returns the agents that the grace period waits for, in order of their names.
func (t *Table) Awaited() []string {
	out := make([]string, 0, len(t.grace.expected))
	for a := range t.grace.expected {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}

// Ended records that the shim of an agent has ended, so that nothing can be written under its
// leases any more: the grace period does not wait for it.
func (t *Table) Ended(agent string) { t.returned(agent) }

// returned records that an agent needs no more grace.
func (t *Table) returned(agent string) {
	if !t.grace.active {
		return
	}
	t.grace.back[agent] = true
	delete(t.grace.expected, agent)
	if t.grace.expected != nil && len(t.grace.expected) == 0 {
		t.endGrace()
	}
}

// endGrace serves the waiters; their waits count from their arrival.
func (t *Table) endGrace() {
	now := t.Now()
	over := Effect{Kind: GraceOver, Took: now.Sub(t.grace.start), Awaited: t.Awaited()}
	t.grace = grace{}
	for ws := range t.spaces {
		t.pump(ws)
	}
	for _, w := range t.inOrder() {
		if t.waiting[w.id] == nil {
			continue // granted when an earlier one was refused
		}
		sp := t.spaces[w.Workspace]
		w.deadline = w.since.Add(w.patience(t.blocked(sp, w)))
		if !w.deadline.After(now) {
			t.timeout(w)
		} else {
			t.alarm(w.deadline)
		}
	}
	t.emit(over)
}
