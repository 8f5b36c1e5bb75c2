package table

import (
	"fmt"
	"slices"
	"time"
)

// A delegation that conflicts with a request is recalled. Its holder answers with Report, which
// has the leases it granted itself, and Return; from then on those leases are like all others,
// and the request is decided as usual. A holder that does not answer keeps its delegation as long
// as its session: its client may be granting leases all the time.

// recall recalls l because of k.
func (t *Table) recall(l *lease, k Key) {
	t.heat(l.Workspace, k)
	d := l.delegation
	if d.recalled {
		return
	}
	d.recalled, d.overdue = true, t.Now().Add(t.StaleTimeout/recallPart)
	t.recalls[l] = struct{}{}
	if t.cool() {
		t.hot[dirOf{l.Workspace, d.dir}] = t.Now().Add(hotFor)
	}
	t.alarm(d.overdue)
	t.emit(Effect{Kind: Recall, Holder: l.Holder, Lease: l.Lease, Delegation: Delegation{Dir: d.dir, Last: d.last}})
}

// recallPart is the part of StaleTimeout in which a delegation should be back.
const recallPart = 6

// heat records that two agents want something in the directories of k.
func (t *Table) heat(workspace string, k Key) {
	until := t.Now().Add(hotFor)
	rel, _ := Rel(k.Path)
	if !k.Tree {
		rel = parentOf(rel)
	}
	for t.cool() {
		t.hot[dirOf{workspace, rel}] = until
		if rel == "" {
			return
		}
		rel = parentOf(rel)
	}
}

// cool forgets expired records if there are many, and reports whether there is room for more.
func (t *Table) cool() bool {
	if len(t.hot) >= maxHot {
		for d, until := range t.hot {
			if !until.After(t.Now()) {
				delete(t.hot, d)
			}
		}
	}
	return len(t.hot) < maxHot
}

// Recall recalls the delegations that contain path, and reports whether any is not yet returned.
func (t *Table) Recall(workspace, path string) (pending bool) {
	if sp := t.spaces[workspace]; sp != nil && CheckPath(path) == nil {
		k := Key{Path: path, Mode: Write}
		t.conflicts(sp, &Request{}, k, func(l *lease) bool {
			if l.delegation != nil {
				t.recall(l, k)
				pending = true
			}
			return true
		})
	}
	return pending
}

// Grant is a lease that a session has granted itself.
type Grant struct {
	Claim
	Op  string
	Pid uint32
}

// Report enters what a session has granted itself in directories delegated to it. It returns the
// paths of those that it may not have: they are in no directory of its own, or too many.
func (t *Table) Report(agent, id string, grants []Grant) (refused []string, err error) {
	s := t.sessions[agent]
	if s == nil || s.id != id || !s.live {
		return nil, fmt.Errorf("report of %s: %w", agent, ErrNoSession)
	}
	for _, g := range grants {
		if _, err := normalise([]Key{g.Key}); err != nil {
			return nil, err
		}
		if len(g.Op) > MaxName {
			return nil, fmt.Errorf("%w: operation too long", ErrInvalid)
		}
	}
	for _, g := range grants {
		if !t.enter(s, g) {
			refused = append(refused, g.Path)
		}
	}
	return refused, nil
}

func (t *Table) enter(s *session, g Grant) bool {
	rel, file := Rel(g.Path)
	if !file {
		return false
	}
	at := t.delegated(s.agent, rel)
	if at == nil || g.Token < at.delegation.first || g.Token > t.token {
		return false
	}
	r := Request{Workspace: s.workspace, Holder: s.agent, Op: g.Op, Pid: g.Pid}
	sp := t.spaces[s.workspace] // not nil: the delegation is in it
	l := t.held(sp, &r, g.Key)
	if l == nil {
		if g.Token > at.delegation.last || len(t.holders[s.agent]) >= t.MaxLeases {
			return false
		}
		since := g.Since
		if now := t.Now(); since.IsZero() || since.After(now) {
			since = now
		}
		t.add(sp, &r, g.Key, g.Token, since)
		return true
	}
	if !l.covers(g.Key) {
		l.extend(g.Key)
	}
	l.Token = max(l.Token, g.Token)
	l.Merge, l.Keep = l.Merge || g.Merge, max(l.Keep, g.Keep)
	l.Op, l.Pid = g.Op, g.Pid
	return true
}

// Return returns delegations. One whose Last is not the last token issued with it is ignored: new
// tokens are in transit to the holder, which so has it still.
func (t *Table) Return(agent, id string, ds []Delegation) error {
	s := t.sessions[agent]
	if s == nil || s.id != id {
		return fmt.Errorf("return of %s: %w", agent, ErrNoSession)
	}
	for _, d := range ds {
		if l := t.delegations[agent][d.Dir]; l != nil && l.delegation.last == d.Last {
			t.undelegate(l)
		}
	}
	t.pump(s.workspace)
	return nil
}

// returnAll takes all delegations of a holder, and reports whether there were any. The caller
// pumps the queue.
func (t *Table) returnAll(holder string) (workspace string, any bool) {
	for _, l := range t.delegations[holder] {
		workspace, any = l.Workspace, true
		t.undelegate(l)
	}
	return workspace, any
}

// Delegations returns how many there are.
func (t *Table) Delegations() (n int) {
	for _, of := range t.delegations {
		n += len(of)
	}
	return n
}

// recallInWay recalls the delegations that block w, and records that it waits for them.
func (t *Table) recallInWay(sp *space, w *waiter) {
	for _, k := range w.Keys {
		t.conflicts(sp, &w.Request, k, func(l *lease) bool {
			if l.delegation != nil {
				t.recall(l, k)
				w.recalls = true
			}
			return true
		})
	}
}

// until is when w's wait ends. Every request waits for the return of a directory: until then only
// its holder knows whether the path is free, also if there was a lease on it.
func (t *Table) until(sp *space, w *waiter) time.Time {
	shortest := time.Duration(-1)
	for _, k := range w.Keys {
		kept, lent := false, false
		t.conflicts(sp, &w.Request, k, func(l *lease) bool {
			kept, lent = true, l.delegation != nil
			return !lent
		})
		wait := k.Wait
		switch {
		case lent:
			wait = max(wait, t.RecallWait)
		case !kept:
			continue
		}
		if shortest < 0 || wait < shortest {
			shortest = wait
		}
	}
	if shortest < 0 {
		shortest = w.patience(nil)
	}
	return w.since.Add(shortest)
}

// resumeWaiters resumes the requests whose directories have been returned.
func (t *Table) resumeWaiters(sp *space) {
	if !slices.ContainsFunc(sp.queue, func(w *waiter) bool { return w.recalls }) {
		return
	}
	for _, w := range slices.Clone(sp.queue) {
		if !w.recalls || t.waiting[w.id] == nil || t.lent(sp, w) {
			continue
		}
		w.recalls = false
		t.notifyHolders(sp, w)
		if w.deadline = t.until(sp, w); w.deadline.After(t.Now()) {
			t.alarm(w.deadline)
		} else {
			t.timeout(w)
		}
	}
}

// lent reports whether a delegation blocks w.
func (t *Table) lent(sp *space, w *waiter) (found bool) {
	for _, k := range w.Keys {
		t.conflicts(sp, &w.Request, k, func(l *lease) bool {
			found = l.delegation != nil
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// remind reports the delegations that are overdue.
func (t *Table) remind(now time.Time) {
	for l := range t.recalls {
		if d := l.delegation; !d.overdueReported && !d.overdue.After(now) {
			d.overdueReported = true
			t.emit(Effect{Kind: Overdue, Holder: l.Holder, Lease: l.Lease})
		}
	}
}
