package gateway

import (
	"context"
	"net/http"
	"slices"
	"time"

	"polis/daemon/api/wire"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/provider"
)

const (
	// shareAgain is how long after a request for the next part of a shared budget it is repeated: polisd can have been
	// away.
	shareAgain = 2 * time.Second
	// shareWait bounds how long a request to a model waits for the next part.
	shareWait = 20 * time.Second
)

// shares is what the agent was granted of the budget that its role shares. Gateway.mu guards it.
type shares struct {
	role   string
	bounds []string // those that are set
	day    string   // of what was granted
	got    map[string]part
	// changed is closed when polisd has answered.
	changed chan struct{}
	asked   time.Time
}

// part is what was granted of a bound. half is the use from which the agent asks for the next part.
type part struct {
	wire.Share
	half int64
}

// setShared sets which bounds the role shares. The agent asks for what was spent again: the bounds can be others now. g.mu is
// held.
func (g *Gateway) setShared(s *wire.SharedBudget) {
	old := g.shares
	g.shares = shares{changed: make(chan struct{})}
	if s != nil {
		g.shares.role, g.shares.bounds = s.Role, s.Bounds
		if s.Role == old.role {
			g.shares.day, g.shares.got = old.day, old.got
			for name := range old.got {
				p := old.got[name]
				p.Spent = false
				old.got[name] = p
			}
		}
	}
	if old.changed != nil {
		close(old.changed)
	}
}

// Share replaces what the agent may use of the budget that its role shares, and returns what it has used on that day. What
// polisd takes away is not used afterwards, but by the answers that are open.
func (g *Gateway) Share(r wire.Shares) wire.ShareUse {
	use, spent := g.share(r)
	if spent {
		g.stopIfIdle()
	}
	return use
}

func (g *Gateway) share(r wire.Shares) (use wire.ShareUse, spent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	use = g.dayUse(r.Day)
	s := &g.shares
	if r.Role != s.role || s.role == "" {
		return use, false
	}
	if r.Day != s.day || s.got == nil {
		s.day, s.got = r.Day, map[string]part{}
	}
	more := false
	for _, x := range r.Shares {
		if slices.Contains(s.bounds, x.Bound) {
			used := use.Of(x.Bound)
			s.got[x.Bound] = part{x, used + max(x.Upto-used, 0)/2}
			spent, more = spent || x.Spent, more || x.Upto > used
		}
	}
	if spent || more {
		s.asked = time.Time{}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	if !spent {
		for _, q := range g.spent.questions {
			if q.role == s.role {
				q.moot = true
				q.cancel()
			}
		}
	}
	return use, spent
}

// unspent has the agent ask for the next part of a bound that a person has raised.
func (g *Gateway) unspent(bound string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.shares.got[bound]; ok {
		p.Spent = false
		g.shares.got[bound] = p
	}
	g.shares.asked = time.Time{}
}

// dayUse returns what the agent has used on a day. g.mu is held.
func (g *Gateway) dayUse(day string) wire.ShareUse {
	c := g.Ledger.Sum(func(k ledger.Key) bool { return k.Day == day })
	return wire.ShareUse{Tokens: c.Total(), Micros: c.Micros}
}

// sharedState returns the state of the shared bound that is spent, if one is. g.mu is held.
func (g *Gateway) sharedState() budget.State {
	day := ledger.Day(g.Now())
	for _, bound := range g.shares.bounds {
		if p := g.shares.got[bound]; p.Spent && g.shares.day == day {
			st := budget.Shared(g.shares.role, bound, day, p.Used, p.Limit)
			st.Percent = max(st.Percent, 100)
			return st
		}
	}
	return budget.State{}
}

// lacksShare reports whether nothing is left of what the agent was granted of a bound. g.mu is held.
func (g *Gateway) lacksShare() bool { return g.pastShare(func(p part) int64 { return p.Upto }) }

func (g *Gateway) pastShare(end func(part) int64) bool {
	if len(g.shares.bounds) == 0 {
		return false
	}
	day := ledger.Day(g.Now())
	use := g.dayUse(day)
	return slices.ContainsFunc(g.shares.bounds, func(bound string) bool {
		p, ok := g.shares.got[bound]
		if !ok || g.shares.day != day {
			return true
		}
		return !p.Spent && use.Of(bound) >= end(p)
	})
}

// wantShare asks for the next part when the present one is used, or with half when half of it is. g.mu is held.
func (g *Gateway) wantShare(half bool) {
	if half && !g.pastShare(func(p part) int64 { return p.half }) {
		return
	}
	if now := g.Now(); g.shares.asked.IsZero() || now.Sub(g.shares.asked) >= shareAgain {
		g.shares.asked = now
		g.ShareWanted()
	}
}

// awaitShare waits until the agent has something left of the budget that its role shares, or that is spent.
func (g *Gateway) awaitShare(ctx context.Context) *provider.Failure {
	timeout := time.NewTimer(shareWait)
	defer timeout.Stop()
	for {
		g.mu.Lock()
		if g.sharedState().Spent() || !g.lacksShare() {
			g.mu.Unlock()
			return nil
		}
		g.wantShare(false)
		role, changed := g.shares.role, g.shares.changed
		g.mu.Unlock()
		again := time.NewTimer(shareAgain)
		select {
		case <-changed:
			again.Stop()
			continue
		case <-again.C:
			continue
		case <-timeout.C:
		case <-ctx.Done():
		case <-g.ctx.Done():
		}
		again.Stop()
		return &provider.Failure{Status: http.StatusTooManyRequests, Code: CodeShare, RetryAfter: seconds(shareAgain),
			Message: "what is left of the budget that role " + role + " shares is not known now: polisd has not answered. Try again"}
	}
}
