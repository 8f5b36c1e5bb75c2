package table

import (
	"fmt"
	"time"
)

// Table holds the leases of all workspaces. Assign the fields before the
// first call.
type Table struct {
	// Now is the clock. Its times should carry a monotonic reading, as those
	// of time.Now do, so that a set clock moves no deadline.
	Now func() time.Time
	// StaleTimeout is how long a session's leases outlive its connection.
	StaleTimeout time.Duration
	// GraceWait is how long a request may wait for the end of a grace period
	// even if its own wait is shorter.
	GraceWait time.Duration
	// RecallWait is how long a request waits for a delegation to be returned
	// even if its own wait is shorter.
	RecallWait time.Duration
	// MaxLeases bounds the leases of one holder, MaxExplicit the explicit ones of all holders,
	// and MaxWaiters the queued requests of one holder: no holder can fill the queue.
	MaxLeases, MaxExplicit, MaxWaiters int

	// Changed, if set, is called for each lease that is granted or ends, but not for delegations. It
	// must not call the table.
	Changed func(l Lease, held bool)

	token    uint64
	spaces   map[string]*space
	holders  map[string]map[*lease]struct{}
	sessions map[string]*session
	expiring map[*lease]struct{}
	explicit map[*lease]struct{}
	waiting  map[WaitID]*waiter
	queued   map[string]int // of waiting, by holder
	lastWait WaitID
	spent    map[string][]spent // by holder
	grace    grace
	next     time.Time
	effects  []Effect
	leases   int

	delegations map[string]map[string]*lease // by holder and directory
	recalls     map[*lease]struct{}          // delegations that were recalled
	hot         map[dirOf]time.Time          // directories that are not delegated until then
}

// space is the state of one workspace.
type space struct {
	files, refs node
	queue       []*waiter
}

func (s *space) root(p place) *node {
	if p.refs {
		return &s.refs
	}
	return &s.files
}

// New returns an empty table with the default limits. Tokens start above firstToken; the caller
// passes a number that grows over restarts, such as the time in microseconds.
func New(firstToken uint64) *Table {
	return &Table{
		Now: time.Now, StaleTimeout: 30 * time.Second, GraceWait: 2 * time.Second, RecallWait: 1500 * time.Millisecond,
		MaxLeases: 100_000, MaxExplicit: 10_000, MaxWaiters: 256,
		token:    firstToken,
		spaces:   map[string]*space{},
		holders:  map[string]map[*lease]struct{}{},
		sessions: map[string]*session{},
		expiring: map[*lease]struct{}{},
		explicit: map[*lease]struct{}{},
		waiting:  map[WaitID]*waiter{},
		queued:   map[string]int{},

		delegations: map[string]map[string]*lease{},
		recalls:     map[*lease]struct{}{},
		hot:         map[dirOf]time.Time{},
	}
}

// Effects returns the effects on others since the last call, in order.
func (t *Table) Effects() []Effect {
	e := t.effects
	t.effects = nil
	return e
}

func (t *Table) emit(e Effect) { t.effects = append(t.effects, e) }

// Len returns the number of leases, waiters and live or stale sessions.
func (t *Table) Len() (leases, waiters, sessions int) {
	return t.leases, len(t.waiting), len(t.sessions)
}

func (t *Table) space(name string) *space {
	s := t.spaces[name]
	if s == nil {
		s = &space{}
		t.spaces[name] = s
	}
	return s
}

// tidy forgets a workspace that holds nothing.
func (t *Table) tidy(name string) {
	if s := t.spaces[name]; s != nil && len(s.queue) == 0 &&
		len(s.files.leases)+len(s.files.children)+len(s.refs.leases)+len(s.refs.children) == 0 {
		delete(t.spaces, name)
	}
}

// Acquire requests all keys of r. It grants them, queues the request, or refuses with a
// *ConflictError, ErrGrace, ErrLimit, ErrNoSession or ErrInvalid. A queued request ends with a
// Granted or Refused effect, at the latest in the first Tick after its wait.
func (t *Table) Acquire(r Request) (Result, error) {
	if err := r.check(); err != nil {
		return Result{}, err
	}
	if !r.Explicit {
		if s := t.sessions[r.Holder]; s == nil || s.id != r.Session || !s.live {
			return Result{}, fmt.Errorf("acquire for %s: %w", r.Holder, ErrNoSession)
		}
	}
	sp := t.space(r.Workspace)
	defer t.tidy(r.Workspace)
	fresh := 0
	for _, k := range r.Keys {
		l := t.held(sp, &r, k)
		if l == nil || !l.covers(k) {
			fresh++
		}
		if l != nil {
			continue
		}
		if err := t.cooled(&r, k); err != nil {
			return Result{}, err
		}
	}
	if fresh > 0 && len(t.holders[r.Holder])+fresh > t.MaxLeases {
		return Result{}, fmt.Errorf("acquire for %s: %d leases: %w", r.Holder, t.MaxLeases, ErrLimit)
	}
	if r.Explicit && fresh > 0 && len(t.explicit)+fresh > t.MaxExplicit {
		return Result{}, fmt.Errorf("acquire for %s: %d explicit leases: %w", r.Holder, len(t.explicit), ErrLimit)
	}
	w := &waiter{Request: r, since: t.Now()}
	if t.grace.active && fresh > 0 {
		w.deadline = w.since.Add(max(w.patience(nil), t.GraceWait))
		return t.enqueue(sp, w)
	}
	blocked := t.blocked(sp, w)
	if blocked == nil && (fresh == 0 || w.patience(nil) == 0 || !t.behind(sp, w, sp.queue)) {
		got := t.grant(sp, w)
		// The holder may have passed a waiter that another request of its own stands behind: that
		// one need not wait any more.
		t.pump(r.Workspace)
		return Result{Leases: got}, nil
	}
	if w.deadline = t.until(sp, w); w.deadline.Equal(w.since) {
		return Result{}, t.refusal(sp, w)
	}
	return t.enqueue(sp, w)
}

// held returns the lease the requester itself has on exactly k's path.
func (t *Table) held(sp *space, r *Request, k Key) *lease {
	p := placeOf(k.Path, k.Tree)
	n := sp.root(p).find(p.rel)
	if n == nil {
		return nil
	}
	for _, l := range n.leases {
		if l.Holder == r.Holder && l.Explicit == r.Explicit && l.Path == k.Path && l.delegation == nil {
			return l
		}
	}
	return nil
}

func (l *lease) covers(k Key) bool {
	return (l.Mode == Write || k.Mode == Read) && (l.Tree || !k.Tree)
}

// extend makes l cover k too.
func (l *lease) extend(k Key) {
	l.tally(-1)
	l.Tree = l.Tree || k.Tree
	l.place = placeOf(l.Path, l.Tree)
	if k.Mode == Write {
		l.Mode = Write
	}
	l.tally(1)
}

// grant grants all keys of w; no lease conflicts any more.
func (t *Table) grant(sp *space, w *waiter) []Lease {
	now := t.Now()
	out := make([]Lease, 0, len(w.Keys))
	for _, k := range w.Keys {
		l := t.held(sp, &w.Request, k)
		switch {
		case l != nil && w.Soft && l.covers(k):
			out = append(out, l.Lease)
			continue
		case l == nil:
			t.token++
			l = t.add(sp, &w.Request, k, t.token, now)
			if s := t.sessions[w.Holder]; s != nil && !w.Explicit {
				delete(s.broken, k.Path)
			}
			l.carried, _ = t.carried(&w.Request, k)
		case !l.covers(k):
			l.extend(k)
			t.token++
			l.Token = t.token
		}
		l.Merge, l.Keep = l.Merge || k.Merge, max(l.Keep, k.Keep)
		l.Op, l.Pid = w.Op, w.Pid
		if w.Explicit {
			l.Reason = w.Reason
			if !l.Expires.IsZero() || !l.Since.Before(now) { // else a person took it, without an end
				l.most = w.Most
			}
			t.setExpiry(l, now, w.length(l, now))
		}
		out = append(out, l.Lease)
	}
	return out
}

// length is how long from now an explicit lease lasts. A lease without an end, which a person
// took, stays so when its holder requests it again under a bound.
func (w *waiter) length(l *lease, now time.Time) time.Duration {
	switch {
	case w.Most == 0:
		return w.For
	case l.Expires.IsZero() && l.Since.Before(now):
		return 0
	}
	return max(min(w.For, l.Since.Add(w.Most-l.carried).Sub(now)), time.Nanosecond)
}

func (t *Table) setExpiry(l *lease, now time.Time, d time.Duration) {
	if d == 0 {
		l.Expires = time.Time{}
		delete(t.expiring, l)
		return
	}
	l.Expires = now.Add(d)
	t.expiring[l] = struct{}{}
	t.alarm(l.Expires)
}

func (t *Table) add(sp *space, r *Request, k Key, token uint64, since time.Time) *lease {
	p := placeOf(k.Path, k.Tree)
	l := &lease{place: p, Lease: Lease{
		Workspace: r.Workspace, Path: k.Path, Holder: r.Holder, Mode: k.Mode, Tree: k.Tree,
		Since: since, Token: token, Explicit: r.Explicit, Merge: k.Merge, Keep: k.Keep, Op: r.Op, Pid: r.Pid,
	}}
	l.attach(sp.root(p))
	of := t.holders[r.Holder]
	if of == nil {
		of = map[*lease]struct{}{}
		t.holders[r.Holder] = of
	}
	of[l] = struct{}{}
	if l.Explicit {
		t.explicit[l] = struct{}{}
	}
	t.leases++
	if t.Changed != nil {
		t.Changed(l.Lease, true)
	}
	return l
}
