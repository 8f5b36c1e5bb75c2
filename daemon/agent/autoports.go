package agent

import (
	"context"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// autoMap maps a port that the agent opened, unless it is mapped or the user removed its map.
func (m *Manager) autoMap(ctx context.Context, sh Shim, a *Agent, protocol string, internal int) {
	if !m.config().Network.AutoMap {
		return
	}
	a.mapping.Lock()
	defer a.mapping.Unlock()
	k := PortKey{a.Name(), protocol, internal}
	m.mu.Lock()
	_, mapped := find(a.Kept.PortMappings, k)
	before, _ := find(a.Kept.KnownPorts, k)
	room := len(a.Kept.PortMappings) < maxMaps
	m.mu.Unlock()
	if mapped || before.Off || !room || m.isLeftover(ctx, sh, k) {
		return
	}
	if _, err := m.mapPorts(ctx, sh, a, wanted{key: k, n: 1, auto: true}); err != nil {
		m.Log.Warn("port not mapped", "agent", a.Name(), "port", k.String(), "err", err)
		m.Events.Publish(api.Event{Type: api.EventPort, Agent: a.Name(), Code: api.CodeOf(err), Message: err.Error()})
	}
}

// unmap removes the automatic map of a port that the agent closed.
func (m *Manager) unmap(ctx context.Context, sh Shim, a *Agent, protocol string, internal int) {
	a.mapping.Lock()
	defer a.mapping.Unlock()
	k := PortKey{a.Name(), protocol, internal}
	m.mu.Lock()
	p, mapped := find(a.Kept.PortMappings, k)
	m.mu.Unlock()
	if !mapped || !p.Auto {
		return
	}
	if err := sh.RemovePort(ctx, protocol, internal); err != nil && api.CodeOf(err) != api.CodePortNotFound {
		m.Log.Warn("port not unmapped", "agent", a.Name(), "port", k.String(), "err", err)
		return
	}
	m.publishGone(a, p)
	m.mu.Lock()
	a.dropMap(k)
	m.mu.Unlock()
	m.retire(a, p)
	m.saveMaps(a)
}

// syncPorts maps and unmaps the ports that the agent opened and closed while no daemon ran.
func (m *Manager) syncPorts(ctx context.Context, sh Shim, a *Agent, st wire.Status) {
	v, err := wire.Agree(st)
	if err != nil || v < 2 {
		return // this shim does not report them
	}
	open := map[string][]int{api.ProtoTCP: st.Listening}
	if v >= wire.UDPVersion {
		open[api.ProtoUDP] = st.ListeningUDP
	}
	for _, protocol := range []string{api.ProtoTCP, api.ProtoUDP} {
		for _, p := range open[protocol] {
			m.autoMap(ctx, sh, a, protocol, p)
		}
	}
	for _, p := range st.Ports {
		if p.Auto && !slices.Contains(open[p.Protocol], p.Internal) {
			m.unmap(ctx, sh, a, p.Protocol, p.Internal)
		}
	}
}

// replayTime bounds reading the retained events of an older shim.
const replayTime = 2 * time.Second

// replayPorts is syncPorts for a shim that does not report open ports, after a daemon that did not
// save its cursor: both are of the first version. The events that the shim keeps contain what was
// opened and closed. Processing an event again changes nothing.
func (m *Manager) replayPorts(ctx context.Context, sh Shim, a *Agent, st wire.Status) {
	if v, err := wire.Agree(st); err != nil || v >= 2 || st.LastEvent == 0 {
		return
	}
	rctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	err := sh.Events(rctx, 0, func(e api.Event) {
		if e.Type == wire.EventListen || e.Type == wire.EventUnlisten {
			m.handleEvent(ctx, sh, a, e)
		}
		if e.ID >= st.LastEvent {
			cancel()
		}
	})
	if rctx.Err() == nil {
		m.Log.Warn("events kept by the shim not read", "agent", a.Name(), "err", err)
	}
}
