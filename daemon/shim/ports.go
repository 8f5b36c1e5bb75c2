package shim

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sort"
	"sync"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
	"polis/netbridge"
)

// ports are the agent's port maps: each one listener on the host, carried
// into the agent's network namespace.
type ports struct {
	agent string
	ns    *netbridge.NS
	addr  netip.Addr
	log   *slog.Logger

	mu   sync.Mutex
	maps map[int]*portMap
}

type portMap struct {
	info api.PortMapping
	fwd  *netbridge.Forwarder
}

func (p *ports) add(ctx context.Context, r wire.PortRequest) error {
	bind, err := netip.ParseAddr(r.Bind)
	if err != nil || r.Internal < 1 || r.Internal > 65535 || r.External < 1 || r.External > 65535 {
		return api.Errorf(api.CodeBadRequest, "port map %s:%d -> %d is not valid: ports are from 1 to 65535, bind is an IP address", api.Shorten(r.Bind, 64), r.External, r.Internal)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.maps[r.Internal]; ok {
		if m.info.External == r.External && m.info.Bind == r.Bind {
			return nil
		}
		return api.Errorf(api.CodePortInUse, "port %d of agent %s is already mapped to %d", r.Internal, p.agent, m.info.External)
	}
	fwd := &netbridge.Forwarder{NS: p.ns, External: netip.AddrPortFrom(bind, uint16(r.External)),
		Internal: uint16(r.Internal), AgentAddr: p.addr, Log: p.log}
	err = fwd.Open(ctx)
	if errors.Is(err, netbridge.ErrPortInUse) {
		return api.Errorf(api.CodePortInUse, "%w", err)
	}
	if err != nil {
		return api.Errorf(api.CodeBridgeFailed, "map port %d: %w", r.Internal, err)
	}
	p.maps[r.Internal] = &portMap{fwd: fwd, info: api.PortMapping{Agent: p.agent, Internal: r.Internal,
		External: r.External, Protocol: "tcp", Bind: r.Bind, Auto: r.Auto}}
	return nil
}

func (p *ports) remove(internal int) error {
	p.mu.Lock()
	m, ok := p.maps[internal]
	delete(p.maps, internal)
	p.mu.Unlock()
	if !ok {
		return api.Errorf(api.CodePortNotFound, "port %d of agent %s is not mapped", internal, p.agent)
	}
	return m.fwd.Close()
}

func (p *ports) list() []api.PortMapping {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]api.PortMapping, 0, len(p.maps))
	for _, m := range p.maps {
		out = append(out, m.info)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Internal < out[j].Internal })
	return out
}

func (p *ports) close() error {
	p.mu.Lock()
	maps := p.maps
	p.maps = map[int]*portMap{}
	p.mu.Unlock()
	var errs []error
	for _, m := range maps {
		errs = append(errs, m.fwd.Close())
	}
	return errors.Join(errs...)
}
