package shim

import (
	"context"
	"fmt"
	"net/netip"

	"polis/daemon/api"
	"polis/netbridge"
)

func (s *Shim) openNetwork() error {
	ns, err := netbridge.OpenNS(s.Spec.NetNS)
	if err != nil {
		return err
	}
	s.ns = ns
	s.onClose("network namespace", func(context.Context) error { return ns.Close() })
	addr, err := netip.ParseAddr(s.Spec.Address)
	if err != nil {
		return fmt.Errorf("address %q: %w", s.Spec.Address, err)
	}
	s.ports = &ports{agent: s.Spec.Agent, ns: ns, addr: addr, log: s.Log, maps: map[int]*portMap{}}
	s.onClose("port maps", func(context.Context) error { return s.ports.close() })
	s.dns = &netbridge.DNS{NS: ns, Log: s.Log}
	if err := s.dns.Open(s.ctx); err != nil {
		return err
	}
	s.onClose("name service", func(context.Context) error { return s.dns.Close() })
	s.group.Go(func() error { s.watchListeners(); return nil })
	return nil
}

// watchListeners tells the daemon which ports the agent opens and closes.
func (s *Shim) watchListeners() {
	w := netbridge.Watcher{NS: s.ns, Log: s.Log}
	if err := w.Run(s.ctx, func(c netbridge.Change) {
		for _, p := range c.Added {
			s.listens(p, true)
			s.publishPort(EventListen, "opened", p)
		}
		for _, p := range c.Removed {
			s.listens(p, false)
			s.publishPort(EventUnlisten, "closed", p)
		}
	}); err != nil && s.ctx.Err() == nil {
		s.Log.Error("watch listeners", "err", err)
	}
}

// listens keeps what status tells of the agent's ports. It comes before the
// event, so that who asks after the event is not told less.
func (s *Shim) listens(port uint16, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.listening[int(port)] = true
	} else {
		delete(s.listening, int(port))
	}
}

func (s *Shim) publishPort(typ, verb string, port uint16) {
	s.events.Publish(api.Event{Type: typ, Agent: s.Spec.Agent,
		Message: fmt.Sprintf("agent %s %s port %d", s.Spec.Agent, verb, port), Data: map[string]any{"port": int(port)}})
}
