package table

import (
	"crypto/subtle"
	"fmt"
	"strings"
	"time"
)

// session is one shim's claim to speak for its agent.
type session struct {
	agent, id, secret string
	workspace         string
	live              bool
	lost              time.Time
}

// grace is the time after a restart in which only earlier holders are served.
type grace struct {
	active   bool
	start    time.Time
	until    time.Time
	expected map[string]bool
	back     map[string]bool
}

// Hello opens a session, or resumes the one with the same id and secret
// (resumed = true, its leases are still there). An agent's lost session is
// replaced by a new one and loses its leases at once; a live one is not
// (ErrSessionExists).
func (t *Table) Hello(workspace, agent, id, secret string) (resumed bool, err error) {
	if err := CheckName("agent", agent); err != nil {
		return false, err
	}
	if strings.Contains(agent, ":") {
		return false, fmt.Errorf("%w: agent %q", ErrInvalid, agent)
	}
	if id == "" || secret == "" || len(id) > MaxName || len(secret) > MaxName {
		return false, fmt.Errorf("%w: session of %s lacks id or secret", ErrInvalid, agent)
	}
	r := Request{Workspace: workspace, Holder: agent, Keys: []Key{{Mode: Read}}}
	if err := r.check(); err != nil {
		return false, err
	}
	if s := t.sessions[agent]; s != nil {
		same := subtle.ConstantTimeCompare([]byte(s.id), []byte(id)) &
			subtle.ConstantTimeCompare([]byte(s.secret), []byte(secret))
		switch {
		case same == 1 && s.workspace == workspace:
			s.live = true
			t.forgetWaiters(agent, id)
			for l := range t.holders[agent] {
				l.seen = false
			}
			return true, nil
		case s.live:
			return false, fmt.Errorf("hello of %s: %w", agent, ErrSessionExists)
		}
		t.end(s, WhyReplaced)
	}
	t.sessions[agent] = &session{agent: agent, id: id, secret: secret, workspace: workspace, live: true}
	return false, nil
}

// Disconnect marks a session as lost. Its requests leave the queue; its
// leases stay for StaleTimeout.
func (t *Table) Disconnect(agent, id string) {
	s := t.sessions[agent]
	if s == nil || s.id != id || !s.live {
		return
	}
	s.live, s.lost = false, t.Now()
	t.alarm(s.lost.Add(t.StaleTimeout))
	t.forgetWaiters(agent, id)
	t.emit(Effect{Kind: SessionStale, Holder: agent, Session: id})
}

func (t *Table) forgetWaiters(agent, id string) {
	touched := map[string]bool{}
	for _, w := range t.inOrder() {
		if w.Holder == agent && w.Session == id {
			t.refuse(w, ErrNoSession)
			touched[w.Workspace] = true
		}
	}
	for ws := range touched {
		t.pump(ws)
	}
}

// Bye ends a session and its agent's leases at once.
func (t *Table) Bye(agent, id string) {
	if s := t.sessions[agent]; s != nil && s.id == id {
		t.end(s, WhyBye)
	}
}

// DropAgent ends everything of an agent: session, leases (explicit ones
// too), waiting requests. It returns the number of leases.
func (t *Table) DropAgent(agent string) int {
	n := len(t.holders[agent])
	if s := t.sessions[agent]; s != nil {
		t.end(s, WhyBye)
	} else {
		t.dropHolder(agent, WhyBye)
	}
	t.returned(agent)
	return n
}

func (t *Table) end(s *session, why Why) {
	delete(t.sessions, s.agent)
	t.dropHolder(s.agent, why)
	t.emit(Effect{Kind: SessionGone, Holder: s.agent, Session: s.id, Why: why})
}

func (t *Table) dropHolder(holder string, why Why) {
	touched := map[string]bool{}
	for _, w := range t.inOrder() {
		if w.Holder == holder {
			t.refuse(w, ErrNoSession)
			touched[w.Workspace] = true
		}
	}
	for l := range t.holders[holder] {
		t.drop(l, why)
		touched[l.Workspace] = true
	}
	for ws := range touched {
		t.pump(ws)
	}
}

// DropMerging takes the leases that an agent's session keeps until its merge.
func (t *Table) DropMerging(agent string) {
	touched := map[string]bool{}
	for l := range t.holders[agent] {
		if l.Merge && !l.Explicit {
			t.drop(l, WhyMerged)
			touched[l.Workspace] = true
		}
	}
	for ws := range touched {
		t.pump(ws)
	}
}

// Restore puts an explicit lease back that the caller kept over a restart. It
// returns false for a lease that is not explicit, has ended or is in
// somebody's way.
func (t *Table) Restore(l Lease) bool {
	now := t.Now()
	r := Request{
		Workspace: l.Workspace, Holder: l.Holder, Explicit: true, Op: l.Op, Pid: l.Pid, Reason: l.Reason,
		Keys: []Key{{Path: l.Path, Tree: l.Tree, Mode: l.Mode}},
	}
	if !l.Explicit || l.Token == 0 || l.Token >= maxToken || r.check() != nil {
		return false
	}
	if !l.Expires.IsZero() {
		if r.For = l.Expires.Sub(now); r.For <= 0 {
			return false
		}
	}
	sp := t.space(l.Workspace)
	defer t.tidy(l.Workspace)
	w := &waiter{Request: r}
	if t.held(sp, &r, r.Keys[0]) != nil || t.blocked(sp, w) != nil {
		return false
	}
	t.token = max(t.token, l.Token)
	got := t.add(sp, &r, r.Keys[0], l.Token, l.Since)
	got.Reason = l.Reason
	t.setExpiry(got, now, r.For)
	return true
}

// Reclaim restores leases a session had before the connection (or the table)
// was lost. It returns the tokens of the leases, 0 where the lease is lost to
// another holder. In a grace period a claim keeps its token, and of two
// sessions that claim the same the higher token wins: it is the later grant.
func (t *Table) Reclaim(agent, id string, claims []Claim) ([]uint64, error) {
	s := t.sessions[agent]
	if s == nil || s.id != id || !s.live {
		return nil, fmt.Errorf("reclaim for %s: %w", agent, ErrNoSession)
	}
	for _, c := range claims {
		if _, err := normalise([]Key{c.Key}); err != nil {
			return nil, err
		}
	}
	out := make([]uint64, len(claims))
	for i, c := range claims {
		out[i] = t.reclaim(s, c)
	}
	t.tidy(s.workspace)
	return out, nil
}

func (t *Table) reclaim(s *session, c Claim) uint64 {
	r := Request{Workspace: s.workspace, Holder: s.agent, Op: "reclaim"}
	sp := t.space(s.workspace)
	if l := t.held(sp, &r, c.Key); l != nil {
		l.seen = true
		if l.covers(c.Key) {
			return l.Token
		}
		return 0 // never granted like that by this table
	}
	if c.Token == 0 || c.Token >= maxToken || len(t.holders[s.agent]) >= t.MaxLeases {
		return 0
	}
	var older []*lease
	lost := false
	t.conflicts(sp, &r, c.Key, func(l *lease) bool {
		lost = !l.reclaimed || !t.grace.active || l.Token > c.Token
		older = append(older, l)
		return !lost
	})
	if lost {
		return 0
	}
	for _, l := range older {
		t.drop(l, WhyEvicted)
	}
	token := c.Token
	if t.grace.active {
		t.token = max(t.token, token)
	} else {
		t.token++
		token = t.token
	}
	since := c.Since
	if now := t.Now(); since.IsZero() || since.After(now) {
		since = now
	}
	l := t.add(sp, &r, c.Key, token, since)
	l.reclaimed, l.seen = t.grace.active, true
	return token
}

// Reclaimed ends a session's reclaim. Leases the session did not claim (it
// never learnt that it had them) are given back.
func (t *Table) Reclaimed(agent, id string) error {
	s := t.sessions[agent]
	if s == nil || s.id != id || !s.live {
		return fmt.Errorf("reclaim for %s: %w", agent, ErrNoSession)
	}
	touched := map[string]bool{}
	for l := range t.holders[agent] {
		if !l.Explicit && !l.seen {
			t.drop(l, WhyUnknown)
			touched[l.Workspace] = true
		}
	}
	for ws := range touched {
		t.pump(ws)
	}
	t.returned(agent)
	return nil
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

// InGrace says whether the grace period lasts.
func (t *Table) InGrace() bool { return t.grace.active }

// returned notes that an agent needs no more grace.
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

// endGrace serves those who waited; their waits count from when they came.
func (t *Table) endGrace() {
	t.grace = grace{}
	now := t.Now()
	for ws := range t.spaces {
		t.pump(ws)
	}
	for _, w := range t.inOrder() {
		if t.waiting[w.id] == nil {
			continue // granted when an earlier one gave up
		}
		sp := t.spaces[w.Workspace]
		w.deadline = w.since.Add(w.patience(t.blocked(sp, w)))
		if !w.deadline.After(now) {
			t.timeout(w)
		} else {
			t.alarm(w.deadline)
		}
	}
	t.emit(Effect{Kind: GraceOver})
}
