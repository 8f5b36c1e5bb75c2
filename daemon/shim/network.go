package shim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/netbridge"
)

func (s *Shim) openNetwork() error {
	if sharedWith(s.Spec).Network {
		return s.openHostNetwork()
	}
	ns, err := netbridge.OpenNS(s.Spec.NetNS)
	if err != nil {
		return err
	}
	s.ns = ns
	s.network.onClose("network namespace", func(context.Context) error { return ns.Close() })
	addr, err := netip.ParseAddr(s.Spec.Address)
	if err != nil {
		return fmt.Errorf("address %q: %w", s.Spec.Address, err)
	}
	s.onClose("model endpoint", s.closeModels)
	s.ports = newPorts(s.Spec.Agent, ns, addr, s.Log)
	s.network.onClose("port maps", func(context.Context) error { return s.ports.close() })
	if err := s.openHostPorts(); err != nil {
		return err
	}
	s.ports.hostPort = s.hostPorts.has
	s.dns = &netbridge.DNS{NS: ns, ResolvConf: s.Spec.ResolvConf, Log: s.Log}
	if s.Spec.NetTable != "" { // else polisd is older than we are, and has the rules open
		if err := s.openEgress(addr); err != nil {
			return err
		}
		s.dns.Filter, s.dns.Admit, s.dns.Local = s.egress.filter, s.egress.admit, s.localName
	}
	if err := s.dns.Open(s.ctx); err != nil {
		return err
	}
	s.network.onClose("name service", func(context.Context) error { return s.dns.Close() })
	return nil
}

// watchListeners reports to the daemon which ports the agent opens and closes, until the shim
// ends.
func (s *Shim) watchListeners() {
	w := netbridge.Watcher{NS: s.ns, Log: s.Log, Ignore: s.notTheAgents, Idle: s.activity.idle, Rest: s.activity.rest, Wake: s.activity.wake}
	if err := w.Run(s.ctx, func(c netbridge.Change) {
		for _, p := range c.Added {
			s.listens(p, true)
			s.publishPort("opened", p, wire.EventListen, wire.EventListenUDP)
		}
		for _, p := range c.Removed {
			s.listens(p, false)
			s.publishPort("closed", p, wire.EventUnlisten, wire.EventUnlistenUDP)
		}
	}); err != nil && s.ctx.Err() == nil {
		s.Log.Error("listeners not watched", "err", err)
		s.watcherEnded("new listeners of the agent")
	}
}

// notTheAgents reports whether polis itself listens on that port for the agent. If the port is a
// host port, an agent's listener on another of its addresses is not mapped either.
func (s *Shim) notTheAgents(l netbridge.Listener) bool {
	at := netip.AddrPortFrom(l.Addr, l.Port)
	return at == netbridge.DNSAddr() || l.Proto == api.ProtoTCP && s.isModelEndpoint(at) || l.Proto == api.ProtoTCP && s.hostPorts.has(int(l.Port))
}

// listens updates the ports that status reports. It is called before the event is emitted, so that
// a query after the event includes the port.
func (s *Shim) listens(p netbridge.Port, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.listening[p] = true
	} else {
		delete(s.listening, p)
	}
}

// listeningOn returns the open ports of a protocol. s.mu is held.
func (s *Shim) listeningOn(protocol string) []int {
	var out []int
	for p := range s.listening {
		if p.Proto == protocol {
			out = append(out, int(p.Number))
		}
	}
	slices.Sort(out)
	return out
}

// publishPort emits the event of an opened or closed port. UDP has events of its own: a daemon
// before wire.UDPVersion takes every port for TCP, and ignores those.
func (s *Shim) publishPort(verb string, p netbridge.Port, tcp, udp string) {
	typ := tcp
	if p.Proto == api.ProtoUDP {
		typ = udp
	}
	s.events.Publish(api.Event{Type: typ, Agent: s.Spec.Agent,
		Message: fmt.Sprintf("agent %s %s port %d/%s", s.Spec.Agent, verb, p.Number, p.Proto), Data: map[string]any{"port": int(p.Number)}})
}
