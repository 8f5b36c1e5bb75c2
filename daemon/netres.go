package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/netbridge"
	"polis/netbridge/egress"
)

// network is the resource that makes and removes the network namespaces of agents.
type network struct{ b *netbridge.Bridge }

func (network) Name() string { return "network namespace" }

// Ephemeral marks a resource that only a running shim needs.
func (network) Ephemeral() {}

func (n network) Ensure(ctx context.Context, a *agent.Agent) error {
	ep, err := n.b.Ensure(ctx, a.Name())
	if err != nil {
		return api.Errorf(api.CodeNetNSFailed, "make the network of agent %s: %w", a.Name(), err)
	}
	a.Network = agent.Network{NetNS: ep.NetNS, Address: ep.Addr.String(), Table: ep.Table, Link: ep.Link}
	return nil
}

func (n network) Remove(ctx context.Context, a *agent.Agent) error { return n.b.Remove(ctx, a.Name()) }

func (n network) List(ctx context.Context) ([]string, error) { return n.b.List(ctx) }

// openGate opens the gate for a shim of a version without egress rules; later shims open it
// themselves.
func (d *Daemon) openGate(ctx context.Context, a *agent.Agent, entries, private []string) error {
	addr, err := netip.ParseAddr(a.Network.Address)
	if err != nil {
		return err
	}
	var e netbridge.Egress
	if e.Policy, err = egress.Parse(entries); err != nil {
		return err
	}
	if e.Private, err = egress.ParsePrivate(private); err != nil {
		return err
	}
	return d.bridge.Gate(a.Name(), addr).Set(ctx, e, nil, nil)
}

// ports allocates external ports that no other agent has (netbridge.Ports) and that are free on
// the host at the moment.
type ports struct {
	pool   *netbridge.Ports
	lo, hi int
}

func newPorts(lo, hi int) (*ports, error) {
	pool, err := netbridge.NewPorts(uint16(lo), uint16(hi))
	if err != nil {
		return nil, err
	}
	return &ports{pool: pool, lo: lo, hi: hi}, nil
}

func poolKey(k agent.PortKey) netbridge.PortKey {
	return netbridge.PortKey{Owner: k.Agent, Proto: k.Protocol, Internal: uint16(k.Internal)}
}

// Take reserves ports that can be bound on the host now.
func (p *ports) Take(ctx context.Context, k agent.PortKey, bind string, n, want int) (int, error) {
	addr, err := netip.ParseAddr(bind)
	if err != nil {
		return 0, api.Errorf(api.CodeBadRequest, "bind = %q: must be an IP address of this host", api.Shorten(bind, 64))
	}
	if err := netbridge.TryBind(ctx, k.Protocol, netip.AddrPortFrom(addr, 0)); err != nil {
		return 0, api.Errorf(api.CodeBadRequest, "bind = %q: %w", bind, err).WithHint("ip address shows those of this host")
	}
	if want < 0 || want > p.hi {
		want = 0
	}
	port, err := p.pool.Take(poolKey(k), n, uint16(want), func(port uint16) bool {
		return netbridge.TryBind(ctx, k.Protocol, netip.AddrPortFrom(addr, port)) != nil
	})
	switch {
	case errors.Is(err, netbridge.ErrNoPorts) && n > 1:
		return 0, api.Errorf(api.CodeNoPorts, "no %d external ports in a row are left in %d-%d for the ports of agent %s from %s on", n, p.lo, p.hi, k.Agent, k)
	case errors.Is(err, netbridge.ErrNoPorts):
		return 0, api.Errorf(api.CodeNoPorts, "no external port of %d-%d is left for port %s of agent %s", p.lo, p.hi, k, k.Agent)
	case err != nil:
		return 0, api.Errorf(api.CodeInternal, "choose an external port: %w", err)
	}
	return int(port), nil
}

// Adopt reserves a port that the agent has already.
func (p *ports) Adopt(k agent.PortKey, external int) error {
	if external < 1 || external > 65535 {
		return fmt.Errorf("%w: %d", netbridge.ErrPortRange, external)
	}
	return p.pool.Claim(poolKey(k), uint16(external))
}

// Release releases a port. Its agent gets the same port again if it is free.
func (p *ports) Release(k agent.PortKey) { p.pool.Release(poolKey(k)) }

// Forget releases a port and deletes its record.
func (p *ports) Forget(k agent.PortKey) { p.pool.Forget(poolKey(k)) }

// ForgetAgent releases all ports of a removed agent.
func (p *ports) ForgetAgent(name string) { p.pool.ForgetOwner(name) }

// Remember records a port's external port.
func (p *ports) Remember(k agent.PortKey, external int) {
	if external > 0 && external <= 65535 {
		p.pool.Remember(poolKey(k), uint16(external))
	}
}
