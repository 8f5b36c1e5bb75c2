package shim

import (
	"context"
	"net/netip"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/netbridge"
)

// openHostNetwork is openNetwork for an agent in the host's network. No port is forwarded: the
// agent listens on the host's ports. No listener is watched, as the agent's cannot be
// distinguished from others.
func (s *Shim) openHostNetwork() error {
	if err := openOnly(s.Spec.Settings); err != nil {
		return err
	}
	s.ports = newPorts(s.Spec.Agent, nil, netip.Addr{}, s.Log)
	s.network.onClose("port maps", func(context.Context) error { return s.ports.close() })
	return nil
}

// hostPort represents a map where the agent itself listens on the external port. It is free when
// the map is made; then the agent can take it.
type hostPort struct {
	protocol string
	at       netip.AddrPort
}

func (p hostPort) Open(ctx context.Context) error {
	return netbridge.TryBind(ctx, p.protocol, p.at)
}

func (hostPort) Close() error { return nil }

// openOnly rejects settings that restrict the agent's network: nothing here could enforce them.
func openOnly(v wire.Settings) error {
	e, err := reach(v)
	if err != nil || e.Policy.Open() {
		return err
	}
	return api.Errorf(api.CodeNetNSFailed, "egress %s cannot be kept in the host's network", api.Shorten(e.Policy.String(), 200))
}
