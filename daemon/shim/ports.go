package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/netbridge"
)

// ports are the agent's port maps. Each map is a listener on the host that forwards into the
// agent's network namespace.
type ports struct {
	agent string
	ns    *netbridge.NS
	addr  netip.Addr
	log   *slog.Logger
	// hostPort reports whether a TCP port of the agent leads to the host; nil: none does.
	hostPort func(port int) bool
	// budget limits what all port maps carry at a time.
	budget netbridge.Budget

	mu   sync.Mutex
	maps map[portKey]*portMap
}

type portKey struct {
	protocol string
	internal int
}

// forwarder is a netbridge.Forwarder or UDPForwarder.
type forwarder interface {
	Open(ctx context.Context) error
	Close() error
}

type portMap struct {
	info api.PortMapping
	fwd  forwarder
}

func newPorts(agent string, ns *netbridge.NS, addr netip.Addr, log *slog.Logger) *ports {
	return &ports{agent: agent, ns: ns, addr: addr, log: log, budget: netbridge.NewBudget(netbridge.DefaultBudget), maps: map[portKey]*portMap{}}
}

func (p *ports) add(ctx context.Context, r wire.PortRequest) error {
	r.Protocol = cmp.Or(r.Protocol, api.ProtoTCP)
	bind, err := netip.ParseAddr(r.Bind)
	if err != nil || r.Internal < 1 || r.Internal > 65535 || r.External < 1 || r.External > 65535 {
		return api.Errorf(api.CodeBadRequest, "port map %s:%d -> %d is not valid: ports are from 1 to 65535, bind is an IP address", api.Shorten(r.Bind, 64), r.External, r.Internal)
	}
	at := netip.AddrPortFrom(bind, uint16(r.External))
	var fwd forwarder
	switch r.Protocol {
	case api.ProtoTCP:
		fwd = &netbridge.Forwarder{NS: p.ns, External: at, Internal: uint16(r.Internal), AgentAddr: p.addr, Budget: p.budget, Log: p.log}
	case api.ProtoUDP:
		fwd = &netbridge.UDPForwarder{NS: p.ns, External: at, Internal: uint16(r.Internal), Budget: p.budget, Log: p.log}
	default:
		return api.Errorf(api.CodeBadRequest, "protocol = %q: must be tcp or udp", api.Shorten(r.Protocol, 32))
	}
	if r.Protocol == api.ProtoTCP && p.hostPort != nil && p.hostPort(r.Internal) {
		// The map would lead back to the host, and open the host's loopback to every client that
		// bind admits.
		return api.Errorf(api.CodeBadRequest, "port %d of agent %s is a host port: it leads to the host already", r.Internal, p.agent).
			WithHint("take %d out of network.host_ports first: polisctl agents set %s --host-port PORTS|none", r.Internal, p.agent)
	}
	key := portKey{r.Protocol, r.Internal}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.maps[key]; ok {
		if m.info.External == r.External && m.info.Bind == r.Bind {
			m.info.Auto = m.info.Auto && r.Auto
			return nil
		}
		return api.Errorf(api.CodePortInUse, "port %d/%s of agent %s is already mapped to %d", r.Internal, r.Protocol, p.agent, m.info.External)
	}
	if p.ns == nil {
		fwd = hostPort{protocol: r.Protocol, at: at}
	}
	switch err = fwd.Open(ctx); {
	case errors.Is(err, netbridge.ErrPortInUse):
		return api.Errorf(api.CodePortInUse, "%w", err)
	case errors.Is(err, netbridge.ErrNoSuchAddress):
		return api.Errorf(api.CodeBadRequest, "map port %d: %w", r.Internal, err)
	case err != nil:
		return api.Errorf(api.CodeBridgeFailed, "map port %d: %w", r.Internal, err)
	}
	p.maps[key] = &portMap{fwd: fwd, info: api.PortMapping{Agent: p.agent, Internal: r.Internal,
		External: r.External, Protocol: r.Protocol, Bind: r.Bind, Auto: r.Auto}}
	return nil
}

func (p *ports) remove(key portKey) error {
	p.mu.Lock()
	m, ok := p.maps[key]
	delete(p.maps, key)
	p.mu.Unlock()
	if !ok {
		return api.Errorf(api.CodePortNotFound, "port %d/%s of agent %s is not mapped", key.internal, key.protocol, p.agent)
	}
	return m.fwd.Close()
}

// mapped reports whether a port of the agent is mapped.
func (p *ports) mapped(protocol string, internal int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.maps[portKey{protocol, internal}]
	return ok
}

func (p *ports) list() []api.PortMapping {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]api.PortMapping, 0, len(p.maps))
	for _, m := range p.maps {
		out = append(out, m.info)
	}
	slices.SortFunc(out, func(x, y api.PortMapping) int {
		return cmp.Or(cmp.Compare(x.Internal, y.Internal), cmp.Compare(x.Protocol, y.Protocol))
	})
	return out
}

func (p *ports) close() error {
	p.mu.Lock()
	maps := p.maps
	p.maps = map[portKey]*portMap{}
	p.mu.Unlock()
	var errs []error
	for key, m := range maps {
		if err := m.fwd.Close(); err != nil {
			errs = append(errs, fmt.Errorf("port %d/%s: %w", key.internal, key.protocol, err))
		}
	}
	return errors.Join(errs...)
}
