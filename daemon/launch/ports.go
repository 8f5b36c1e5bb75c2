package launch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/netbridge"
)

// Ports allocates external ports that no other agent has (netbridge.Ports) and that are free on
// the host at the moment.
type Ports struct {
	pool   *netbridge.Ports
	lo, hi int
}

// NewPorts returns those from lo to hi.
func NewPorts(lo, hi int) (*Ports, error) {
	pool, err := netbridge.NewPorts(uint16(lo), uint16(hi))
	if err != nil {
		return nil, err
	}
	return &Ports{pool: pool, lo: lo, hi: hi}, nil
}

func poolKey(k agent.PortKey) netbridge.PortKey {
	return netbridge.PortKey{Owner: k.Agent, Proto: k.Protocol, Internal: uint16(k.Internal)}
}

// Take reserves ports that can be bound on the host now.
func (p *Ports) Take(ctx context.Context, k agent.PortKey, bind string, n, want int) (int, error) {
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
func (p *Ports) Adopt(k agent.PortKey, external int) error {
	if external < 1 || external > 65535 {
		return fmt.Errorf("%w: %d", netbridge.ErrPortRange, external)
	}
	return p.pool.Claim(poolKey(k), uint16(external))
}

// Release releases a port. Its agent gets the same port again if it is free.
func (p *Ports) Release(k agent.PortKey) { p.pool.Release(poolKey(k)) }

// Forget releases a port and deletes its record.
func (p *Ports) Forget(k agent.PortKey) { p.pool.Forget(poolKey(k)) }

// ForgetAgent releases all ports of a removed agent.
func (p *Ports) ForgetAgent(name string) { p.pool.ForgetOwner(name) }

// Remember records a port's external port.
func (p *Ports) Remember(k agent.PortKey, external int) {
	if external > 0 && external <= 65535 {
		p.pool.Remember(poolKey(k), uint16(external))
	}
}
