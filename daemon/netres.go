package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/netbridge"
)

// network is an agent's network namespace as a resource.
type network struct{ b *netbridge.Bridge }

func (network) Name() string { return "network namespace" }

// Ephemeral: without a shim there is nothing to connect.
func (network) Ephemeral() {}

func (n network) Ensure(ctx context.Context, a *agent.Agent) error {
	ep, err := n.b.Ensure(ctx, a.Name())
	if err != nil {
		return api.Errorf(api.CodeNetNSFailed, "make the network of agent %s: %w", a.Name(), err)
	}
	a.Network = agent.Network{NetNS: ep.NetNS, Address: ep.Addr.String()}
	return nil
}

func (n network) Remove(ctx context.Context, a *agent.Agent) error { return n.b.Remove(ctx, a.Name()) }

func (n network) List(ctx context.Context) ([]string, error) { return n.b.List(ctx) }

// ports hands out external ports: unique among agents (netbridge.Ports) and
// free on the host at the moment.
type ports struct {
	pool *netbridge.Ports
	bind netip.Addr

	mu   sync.Mutex
	held map[portKey]uint16
}

type portKey struct {
	agent    string
	internal int
}

func newPorts(lo, hi int, bind string) (*ports, error) {
	pool, err := netbridge.NewPorts(uint16(lo), uint16(hi))
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(bind)
	if err != nil {
		return nil, fmt.Errorf("network.bind: %w", err)
	}
	return &ports{pool: pool, bind: addr, held: map[portKey]uint16{}}, nil
}

// taken asks the host by trying to bind.
func (p *ports) taken(port uint16) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(p.bind.String(), strconv.Itoa(int(port))))
	if err != nil {
		return true
	}
	return l.Close() != nil
}

// Take reserves want if it is free, else the next free port of the range. A second
// call for the same internal port gives the first one back.
func (p *ports) Take(name string, internal, want int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := portKey{name, internal}
	if old, ok := p.held[k]; ok {
		if want == 0 || int(old) == want {
			return int(old), nil
		}
		p.pool.Release(old)
		delete(p.held, k)
	}
	if want > 0 && want <= 65535 && !p.taken(uint16(want)) && p.pool.Claim(uint16(want)) == nil {
		p.held[k] = uint16(want)
		return want, nil
	}
	port, err := p.pool.Next(p.taken)
	if errors.Is(err, netbridge.ErrNoPorts) {
		return 0, api.Errorf(api.CodeNoPorts, "no external port is left for port %d of agent %s", internal, name).
			WithHint("polisctl ports list shows who has them; remove a map or an agent, or widen network.ports in polisd.toml")
	}
	if err != nil {
		return 0, api.Errorf(api.CodeInternal, "choose an external port: %w", err)
	}
	p.held[k] = port
	return int(port), nil
}

// Adopt takes a port that a living shim already serves.
func (p *ports) Adopt(name string, internal, external int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.held[portKey{name, internal}]; ok && int(old) == external {
		return nil
	}
	if err := p.pool.Claim(uint16(external)); err != nil {
		return fmt.Errorf("port %d of agent %s: %w", external, name, err)
	}
	p.held[portKey{name, internal}] = uint16(external)
	return nil
}

// Release gives a port back.
func (p *ports) Release(name string, internal int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := portKey{name, internal}
	if port, ok := p.held[k]; ok {
		p.pool.Release(port)
		delete(p.held, k)
	}
}
