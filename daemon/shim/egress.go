package shim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/netbridge"
	"polis/netbridge/egress"
)

const (
	// An address that was resolved for a name is open for the TTL of the answer, but not less
	// than minOpen, and egressGrace more: programs keep an answer longer than they should.
	minOpen     = time.Minute
	egressGrace = 5 * time.Minute
	// remembered bounds the addresses whose names are recorded.
	remembered = 4096
	// namesEach bounds the names that are recorded for an address.
	namesEach = 8
)

// egressGuard is the shim's side of an agent's egress: which names may be resolved, and which
// addresses are open because they were resolved for one.
type egressGuard struct {
	gate netbridge.Gate
	// queue is where refused packets are logged; 0: nowhere.
	queue uint16
	now   func() time.Time
	// refused is called with refused names and refused addresses in answers.
	refused func(a netbridge.Asked, addr netip.Addr, why string)
	// named is called with a name that was resolved.
	named func(name string)

	mu       sync.Mutex // held while the gate is changed: an address is never open under an earlier policy
	e        netbridge.Egress
	resolved map[netip.Addr]*resolved
	own      []netip.Prefix // the host's addresses
	read     time.Time      // when they were read
	pids     func() ([]int, error)
}

// resolved is an address that was in answers.
type resolved struct {
	until time.Time // open until then, under a policy of names
	names []string
	last  time.Time
}

func reach(v wire.Settings) (e netbridge.Egress, err error) {
	if e.Policy, err = egress.Parse(v.Egress); err != nil {
		return e, api.Errorf(api.CodeBadRequest, "egress: %w", err)
	}
	if e.Private, err = egress.ParsePrivate(v.Private); err != nil {
		return e, api.Errorf(api.CodeBadRequest, "private: %w", err)
	}
	return e, nil
}

// openEgress opens the agent's gate according to its settings.
func (s *Shim) openEgress(addr netip.Addr) error {
	e, err := reach(s.Spec.Settings)
	if err != nil {
		return err
	}
	g := &egressGuard{gate: netbridge.Gate{Table: s.Spec.NetTable, Link: s.Spec.NetLink, Addr: addr}, now: time.Now,
		refused: s.refusedName, named: s.usedName, resolved: map[netip.Addr]*resolved{}}
	s.egress = g
	if err := s.openRefusals(g.gate); err != nil {
		return err
	}
	if err := s.bound(s.Spec.Connections); err != nil {
		return err
	}
	return g.set(s.ctx, e)
}

// setEgress applies the settings' egress, to open connections too.
func (s *Shim) setEgress(old, now wire.Settings) error {
	if sharedWith(s.Spec).Network {
		return openOnly(now)
	}
	if s.egress == nil || slices.Equal(old.Egress, now.Egress) && slices.Equal(old.Private, now.Private) {
		return nil
	}
	e, err := reach(now)
	if err == nil {
		err = s.egress.set(s.ctx, e)
	}
	if err != nil {
		return errors.Join(api.Errorf(api.CodeNetNSFailed, "egress of agent %s: %w", s.Spec.Agent, err), s.egress.set(s.ctx, s.egress.egress()))
	}
	return nil
}

// begin sets the function that lists the agent's processes, once there are any.
func (g *egressGuard) begin(pids func() ([]int, error)) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pids = pids
}

func (g *egressGuard) egress() netbridge.Egress {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.e
}

// set puts a policy in force. Addresses of names that it allows as well stay open.
func (g *egressGuard) set(ctx context.Context, e netbridge.Egress) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, keep := g.now(), map[netip.Addr]time.Duration{}
	still := func(a netip.Addr) bool {
		t, ok := g.resolved[a]
		return ok && slices.ContainsFunc(t.names, e.Policy.Name) && egress.Answerable(a, e.Private, nil)
	}
	for a, t := range g.resolved {
		if e.Policy.Listed() && t.until.After(now) && still(a) {
			keep[a] = t.until.Sub(now)
		}
	}
	if err := g.gate.Set(ctx, e, keep, still); err != nil {
		return err
	}
	g.e = e
	if e.Policy.Listed() { // else a resolved address may be open again under the next policy
		for a, t := range g.resolved {
			if _, kept := keep[a]; !kept {
				t.until = time.Time{}
			}
		}
	}
	return nil
}

// filter reports whether a name may be resolved.
func (g *egressGuard) filter(a netbridge.Asked) bool {
	if p := g.egress().Policy; p.Name(a.Name) || p.Asks(a.Name) {
		return true // a person is consulted at the connection, not at the query
	}
	g.refused(a, netip.Addr{}, "the agent's egress is "+describe(g.egress()))
	return false
}

// admit opens the allowed addresses of an answer, and returns them. They are open when it
// returns.
func (g *egressGuard) admit(a netbridge.Asked, addrs []netip.Addr, ttl time.Duration) ([]netip.Addr, error) {
	good, bad, err := g.open(a.Name, addrs, max(ttl, minOpen)+egressGrace)
	for _, b := range bad {
		g.refused(a, b, "the name points to an address that agents never reach, or to a private network that is not in allow_private")
	}
	if len(good) > 0 {
		g.named(a.Name)
	}
	return good, err
}

func (g *egressGuard) open(name string, addrs []netip.Addr, life time.Duration) (good, bad []netip.Addr, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	listed := g.e.Policy.Name(name)
	if !listed && !g.e.Policy.Asks(name) {
		return nil, nil, nil // the policy changed during the query
	}
	now := g.now()
	own, err := g.host(now)
	if err != nil {
		return nil, nil, err
	}
	fresh, renew := map[netip.Addr]time.Duration{}, map[netip.Addr]time.Duration{}
	var opened []*resolved
	for _, a := range addrs {
		if !egress.Answerable(a, g.e.Private, own) {
			bad = append(bad, a)
			continue
		}
		good = append(good, a)
		if a.IsLoopback() || a.IsUnspecified() {
			continue // the agent's own
		}
		t := g.remember(a, name, now)
		if !listed {
			continue // it opens with the answer
		}
		// Opening it again costs more than a slightly shorter time.
		switch {
		case !g.e.Policy.Listed():
			t.until = now.Add(life) // would be open until then, under a policy of names
		case !t.until.After(now.Add(-time.Minute)): // closed for certain
			fresh[a], opened = life, append(opened, t)
		case t.until.Sub(now) < life-egressGrace/2:
			renew[a], opened = life, append(opened, t)
		}
	}
	if err := g.gate.Allow(fresh, renew); err != nil {
		return nil, bad, err
	}
	for _, t := range opened {
		t.until = now.Add(life)
	}
	return good, bad, nil
}

// remember records a name of an address. If there are too many, the address whose last query is
// oldest is forgotten, but none that is open by its name. The kernel has room for as many of
// those (netbridge), and refuses more.
func (g *egressGuard) remember(a netip.Addr, name string, now time.Time) *resolved {
	t := g.resolved[a]
	if t == nil {
		if len(g.resolved) >= remembered {
			var oldest netip.Addr
			for b, o := range g.resolved {
				if (!g.e.Policy.Listed() || !o.until.After(now)) && (!oldest.IsValid() || o.last.Before(g.resolved[oldest].last)) {
					oldest = b
				}
			}
			delete(g.resolved, oldest)
		}
		t = &resolved{}
		g.resolved[a] = t
	}
	t.last = now
	if i := slices.Index(t.names, name); i >= 0 {
		t.names = slices.Delete(t.names, i, i+1)
	} else if len(t.names) == namesEach {
		t.names = t.names[1:]
	}
	t.names = append(t.names, name)
	return t
}

// name is the name that an address was last resolved for, "" if none.
func (g *egressGuard) name(a netip.Addr) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.resolved[a]; t != nil && len(t.names) > 0 {
		return t.names[len(t.names)-1]
	}
	return ""
}

// describe is a short text for a policy.
func describe(e netbridge.Egress) string {
	return fmt.Sprintf("%q", api.Shorten(e.Policy.String(), 200))
}
