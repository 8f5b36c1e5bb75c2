package agent

import (
	"cmp"
	"context"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/store"
)

// maxMoves is how often another port is tried because a program took the port between the check
// and the bind.
const maxMoves = 16

// maxBridgeTries is how many other ports are tried when a port cannot be forwarded: usually the
// host is the cause, not the port.
const maxBridgeTries = 3

// wanted describes a request: n consecutive ports.
type wanted struct {
	key  PortKey
	n    int
	ext  int    // the first external port; 0 selects any
	bind string // "" is the configured address
	auto bool
}

// mapPorts makes all maps or none. sh is nil for an agent that is not up: it serves the maps after
// its start. a.mapping is held.
func (m *Manager) mapPorts(ctx context.Context, sh Shim, a *Agent, w wanted) ([]api.PortMapping, error) {
	c := m.config()
	bind := cmp.Or(w.bind, c.Network.Bind)
	m.mu.Lock()
	before, had := find(a.Kept.KnownPorts, w.key)
	m.mu.Unlock()
	asked := w.ext
	if asked == 0 && had {
		asked = before.External
	}
	want := w.ext
	for try := 0; ; try++ {
		first, err := m.Ports.Take(ctx, w.key, bind, w.n, want)
		if err != nil {
			return nil, m.noPorts(err)
		}
		if sh != nil {
			err = serve(ctx, sh, w, bind, first)
		}
		if err == nil {
			moved := 0
			if asked != 0 && asked != first {
				moved = asked
			}
			return m.enterMaps(a, w, bind, first, moved, sh != nil), nil
		}
		for i := range w.n {
			m.Ports.Release(w.key.plus(i))
		}
		switch code := api.CodeOf(err); {
		case code == api.CodePortInUse && try < maxMoves:
			// Another program on the host took the port first.
		case code == api.CodeBridgeFailed && try < maxBridgeTries:
			// This port cannot be forwarded; another port may work (seed 000, error table:
			// BRIDGE_FAILED).
		default:
			return nil, err
		}
		want = first + 1
	}
}

// serve makes the shim open the maps.
func serve(ctx context.Context, sh Shim, w wanted, bind string, first int) error {
	for i := range w.n {
		err := sh.AddPort(ctx, portRequest(w.key.plus(i), bind, first+i, w.auto))
		if err == nil {
			continue
		}
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		for j := range i {
			if uerr := sh.RemovePort(uctx, w.key.Protocol, w.key.Internal+j); uerr != nil {
				return api.Errorf(api.CodeOf(err), "%w; and the map of port %s could not be removed again: %v", err, w.key.plus(j), uerr)
			}
		}
		return err
	}
	return nil
}

func portRequest(k PortKey, bind string, external int, auto bool) wire.PortRequest {
	r := wire.PortRequest{Internal: k.Internal, External: external, Bind: bind, Auto: auto}
	if k.Protocol == api.ProtoUDP {
		r.Protocol = api.ProtoUDP // shims before wire.UDPVersion do not know the field
	}
	return r
}

// enterMaps records new maps, saves them and publishes them.
func (m *Manager) enterMaps(a *Agent, w wanted, bind string, first, moved int, served bool) []api.PortMapping {
	out := make([]api.PortMapping, w.n)
	at := bind
	if !served {
		at = ""
	}
	m.mu.Lock()
	for i := range w.n {
		p := store.PortMap{Internal: w.key.Internal + i, External: first + i, Protocol: w.key.Protocol, Bind: w.bind, Auto: w.auto}
		a.setMap(p, at)
		out[i] = a.mapView(p, m.cfgLive.Network.Bind)
		if moved != 0 {
			out[i].Wanted = moved + i
		}
	}
	m.mu.Unlock()
	m.nameMaps(out)
	m.saveMaps(a)
	for _, p := range out {
		if served {
			m.publishMapped(p)
		}
	}
	return out
}

// saveMaps saves a change that was made already. A failed save is repeated automatically.
func (m *Manager) saveMaps(a *Agent) {
	if err := m.save(a.WS); err != nil {
		m.Log.Error("state not saved", "agent", a.Name(), "err", err)
	}
}

// settlePorts checks, before an agent starts, that the host can still bind the ports of its static
// maps. It replaces those that it cannot.
func (m *Manager) settlePorts(ctx context.Context, a *Agent) error {
	a.mapping.Lock()
	defer a.mapping.Unlock()
	c := m.config()
	m.mu.Lock()
	maps := a.Kept.PortMappings
	m.mu.Unlock()
	moved := false
	for _, p := range maps {
		k := a.key(p)
		m.Ports.Release(k)
		ext, err := m.Ports.Take(ctx, k, cmp.Or(p.Bind, c.Network.Bind), 1, p.External)
		if err != nil {
			if aerr := m.Ports.Adopt(k, p.External); aerr != nil {
				m.Log.Warn("external port not kept", "agent", a.Name(), "port", p.External, "err", aerr)
			}
			return m.noPorts(err)
		}
		if ext == p.External {
			continue
		}
		was := p.External
		p.External, moved = ext, true
		m.mu.Lock()
		a.setMap(p, "")
		v := a.mapView(p, c.Network.Bind)
		m.mu.Unlock()
		m.Log.Warn("external port in use; another one taken", "agent", a.Name(), "port", k.String(), "from", was, "to", ext)
		v.Wanted = was
		m.publishMapped(v)
	}
	if moved {
		return m.save(a.WS)
	}
	return nil
}

// noPorts adds the hint which map could be removed when no external port is left.
func (m *Manager) noPorts(err error) error {
	if api.CodeOf(err) != api.CodeNoPorts {
		return err
	}
	maps := m.PortMappings()
	count := map[string]int{}
	for _, p := range maps {
		count[p.Agent]++
	}
	var best *api.PortMapping
	for i, p := range maps {
		// Prefer maps that are not active, then those of the agent with the most maps.
		if best == nil || !p.Served && best.Served || p.Served == best.Served && count[p.Agent] > count[best.Agent] {
			best = &maps[i]
		}
	}
	e := api.AsError(err).With("ports", maps)
	if best == nil {
		return e.WithHint("other programs have all of them: widen network.ports in polisd.toml")
	}
	k, why := PortKey{best.Agent, best.Protocol, best.Internal}, ""
	if !best.Served {
		why = ", which is not running"
	}
	return e.WithHint("polisctl ports remove %s %s frees one of the %d of agent %s%s; or remove an agent, or widen network.ports in polisd.toml", best.Agent, k, count[best.Agent], best.Agent, why)
}
