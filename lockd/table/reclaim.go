package table

import (
	"fmt"
)

// Restore restores an explicit lease that the caller saved over a restart. It returns false for a
// lease that is not explicit, has ended or conflicts.
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
	if len(t.explicit) >= t.MaxExplicit || t.held(sp, &r, r.Keys[0]) != nil || t.blocked(sp, w) != nil {
		return false
	}
	t.token = max(t.token, l.Token)
	got := t.add(sp, &r, r.Keys[0], l.Token, l.Since)
	got.Reason, got.Merge = l.Reason, l.Merge
	t.setExpiry(got, now, r.For)
	return true
}

// Reclaim restores leases a session had before the connection (or the table) was lost. It returns
// the tokens of the leases, 0 where the lease is lost to another holder. In a grace period a
// claim keeps its token, and of two sessions that claim the same path the higher token wins: it
// is the later grant.
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
		// The client may have granted itself more under a delegation, which it has until
		// Reclaimed, and lost the connection before it could report that.
		if !l.covers(c.Key) || c.Token > l.Token {
			t.enter(s, Grant{Claim: c})
		}
		if l.seen = l.covers(c.Key); l.seen {
			return l.Token
		}
		return 0 // never granted like that by this table: Reclaimed releases it, as the client has lost it
	}
	if _, broken := s.broken[c.Path]; broken {
		return 0
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

// Reclaimed ends a session's reclaim. Leases the session did not claim (the grant never reached
// it) are released.
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
	clear(s.broken)
	// The client dropped its delegations when it reconnected, and has claimed what it had granted
	// itself.
	if ws, any := t.returnAll(agent); any {
		touched[ws] = true
	}
	for ws := range touched {
		t.pump(ws)
	}
	t.returned(agent)
	return nil
}
