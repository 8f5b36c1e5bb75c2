package agent

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/store"
)

// maxRange is the most ports in one request.
const maxRange = maxMaps

// span validates a port or a range of ports, and returns their number.
func span(protocol string, internal, last int) (proto string, n int, err error) {
	protocol = cmp.Or(protocol, api.ProtoTCP)
	if protocol != api.ProtoTCP && protocol != api.ProtoUDP {
		return "", 0, api.Errorf(api.CodeBadRequest, "protocol = %q: must be tcp or udp", api.Shorten(protocol, 32))
	}
	if internal < 1 || internal > 65535 {
		return "", 0, api.Errorf(api.CodeBadRequest, "internal = %d: a port is from 1 to 65535", internal)
	}
	last = cmp.Or(last, internal)
	if last < internal || last > 65535 {
		return "", 0, api.Errorf(api.CodeBadRequest, "last = %d: must be from %d, the first port, to 65535", last, internal)
	}
	if n = last - internal + 1; n > maxRange {
		return "", 0, api.Errorf(api.CodeBadRequest, "%d-%d are %d ports: at most %d", internal, last, n, maxRange)
	}
	return protocol, n, nil
}

// checkMap validates a request.
func (m *Manager) checkMap(req api.PortRequest) (wanted, error) {
	protocol, n, err := span(req.Protocol, req.Internal, req.Last)
	if err != nil {
		return wanted{}, err
	}
	c := m.config()
	if lo, hi := c.PortRange(); req.External != 0 && (req.External < lo || req.External+n-1 > hi) {
		return wanted{}, api.Errorf(api.CodeBadRequest, "external = %d: must be from %d to %d", req.External, lo, hi-n+1).
			WithHint("network.ports in polisd.toml is the range")
	}
	if req.Bind != "" {
		if a, err := netip.ParseAddr(req.Bind); err != nil || a.Zone() != "" {
			return wanted{}, api.Errorf(api.CodeBadRequest, "bind = %q: must be an IP address of this host, such as 127.0.0.1, ::1 or 0.0.0.0", api.Shorten(req.Bind, 64))
		}
	}
	return wanted{key: PortKey{req.Agent, protocol, req.Internal}, n: n, ext: req.External, bind: req.Bind}, nil
}

// MapPort adds static port maps to an agent. An agent that is not up serves them after its start.
func (m *Manager) MapPort(ctx context.Context, req api.PortRequest) (api.PortsAdded, error) {
	w, err := m.checkMap(req)
	if err != nil {
		return api.PortsAdded{}, err
	}
	a, err := m.find(ctx, req.Agent)
	if err != nil {
		return api.PortsAdded{}, err
	}
	defer a.op.Unlock()
	if err := m.writable(a); err != nil {
		return api.PortsAdded{}, err
	}
	sh, done, err := m.mappable(ctx, a, w.key.Protocol)
	if err != nil {
		return api.PortsAdded{}, err
	}
	defer done()
	a.mapping.Lock()
	defer a.mapping.Unlock()
	out, gone, err := m.pin(ctx, sh, a, w)
	if err == nil && out == nil {
		out, err = m.mapPorts(ctx, sh, a, w)
	}
	if err != nil {
		m.unpin(ctx, sh, a, gone)
		return api.PortsAdded{}, err
	}
	return api.PortsAdded{PortMapping: out[0], Ports: out}, nil
}

// mappable returns the agent's shim, if it is up and supports maps of the protocol. done releases
// it.
func (m *Manager) mappable(ctx context.Context, a *Agent, protocol string) (sh Shim, done func(), err error) {
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if !up {
		return nil, func() {}, nil
	}
	sh = m.Shims.Dial(a.Name())
	if protocol == api.ProtoTCP {
		return sh, sh.Close, nil
	}
	st, err := sh.Status(ctx)
	if err == nil {
		if v, verr := wire.Agree(st); verr == nil && v < wire.UDPVersion {
			err = api.Errorf(api.CodeBadState, "agent %s was started by an older polisd, and maps no UDP ports", a.Name()).
				WithHint("polisctl agents stop %s && polisctl agents start %s", a.Name(), a.Name())
		}
	}
	if err != nil {
		sh.Close()
		return nil, nil, err
	}
	return sh, sh.Close, nil
}

// pin handles maps that exist already. An automatic map becomes permanent, or is replaced. A
// permanent one is an error. a.mapping is held.
func (m *Manager) pin(ctx context.Context, sh Shim, a *Agent, w wanted) (kept []api.PortMapping, gone []store.PortMap, err error) {
	m.mu.Lock()
	bind := cmp.Or(w.bind, m.cfgLive.Network.Bind)
	total := len(a.Kept.PortMappings)
	var auto []store.PortMap
	for i := range w.n {
		p, ok := find(a.Kept.PortMappings, w.key.plus(i))
		if ok && !p.Auto {
			m.mu.Unlock()
			return nil, nil, api.Errorf(api.CodePortInUse, "port %s of agent %s is already mapped to %d", a.key(p), a.Name(), p.External).
				WithHint("polisctl ports remove %s %s", a.Name(), a.key(p))
		}
		if ok {
			auto = append(auto, p)
		}
	}
	keep := w.n == 1 && len(auto) == 1 && (w.ext == 0 || w.ext == auto[0].External) && a.mapView(auto[0], bind).Bind == bind
	m.mu.Unlock()
	if total+w.n-len(auto) > maxMaps {
		return nil, nil, api.Errorf(api.CodeBadRequest, "agent %s has %d port maps: at most %d", a.Name(), total, maxMaps).WithHint("polisctl ports list %s", a.Name())
	}
	if keep {
		if sh == nil { // the agent is not up: a crash left the map in the state
			return m.enterMaps(a, w, bind, auto[0].External, 0, true), nil, nil
		}
		if err := sh.AddPort(ctx, portRequest(w.key, bind, auto[0].External, false)); err != nil {
			return nil, nil, err
		}
		return m.enterMaps(a, w, bind, auto[0].External, 0, true), nil, nil
	}
	for _, p := range auto {
		if sh != nil {
			if err := sh.RemovePort(ctx, p.Protocol, p.Internal); err != nil && api.CodeOf(err) != api.CodePortNotFound {
				return nil, gone, err
			}
		}
		gone = append(gone, p)
		m.publishGone(a, p)
		m.mu.Lock()
		a.dropMap(a.key(p))
		m.mu.Unlock()
		m.retire(a, p)
	}
	return nil, gone, nil
}

// unpin restores the maps that were replaced by maps which then could not be made.
func (m *Manager) unpin(ctx context.Context, sh Shim, a *Agent, gone []store.PortMap) {
	if len(gone) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	for _, p := range gone {
		if _, err := m.mapPorts(ctx, sh, a, wanted{key: a.key(p), n: 1, ext: p.External, auto: true}); err != nil {
			m.Log.Warn("port not mapped again", "agent", a.Name(), "port", a.key(p).String(), "err", err)
		}
	}
	m.saveMaps(a)
}

// UnmapPort removes a port map, or those of a range, all of which must exist. An automatic map
// that the user removes is not made again.
func (m *Manager) UnmapPort(ctx context.Context, name, protocol string, internal, last int) error {
	protocol, n, err := span(protocol, internal, last)
	if err != nil {
		return err
	}
	a, err := m.find(ctx, name)
	if err != nil {
		return err
	}
	defer a.op.Unlock()
	if err := m.writable(a); err != nil {
		return err
	}
	a.mapping.Lock()
	defer a.mapping.Unlock()
	maps, up, err := m.mapped(a, PortKey{name, protocol, internal}, n)
	if err != nil {
		return err
	}
	if up {
		sh := m.Shims.Dial(name)
		defer sh.Close()
		for _, p := range maps {
			if err := sh.RemovePort(ctx, p.Protocol, p.Internal); err != nil && api.CodeOf(err) != api.CodePortNotFound {
				return err
			}
		}
	}
	for _, p := range maps {
		m.publishGone(a, p)
		m.mu.Lock()
		a.dropMap(a.key(p))
		m.mu.Unlock()
		if p.Auto {
			p.Off = true
			m.retire(a, p)
		} else {
			m.Ports.Forget(a.key(p))
		}
	}
	m.saveMaps(a)
	return nil
}

// mapped returns the maps of n consecutive ports, if all exist.
func (m *Manager) mapped(a *Agent, k PortKey, n int) (maps []store.PortMap, up bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range n {
		p, ok := find(a.Kept.PortMappings, k.plus(i))
		if !ok {
			e := api.Errorf(api.CodePortNotFound, "port %s of agent %s is not mapped", k.plus(i), k.Agent).WithHint("polisctl ports list %s", k.Agent)
			other := PortKey{k.Agent, api.ProtoUDP, k.Internal + i}
			if _, ok := find(a.Kept.PortMappings, other); ok && k.Protocol == api.ProtoTCP {
				e = e.WithHint("polisctl ports remove %s %s: UDP is mapped, TCP is not", k.Agent, other)
			}
			return nil, a.up, e
		}
		maps = append(maps, p)
	}
	return slices.Clip(maps), a.up, nil
}
