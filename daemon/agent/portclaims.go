package agent

import (
	"cmp"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/store"
)

// claimPorts claims the ports of an agent's state, before any agent gets others. An automatic map
// is only remembered: the shim, if one runs, reports whether its listener still exists.
func (m *Manager) claimPorts(a *Agent, rep *Report) {
	a.mapping.Lock()
	defer a.mapping.Unlock()
	m.mu.Lock()
	known, maps := a.Kept.KnownPorts, a.Kept.PortMappings
	m.mu.Unlock()
	for _, p := range known {
		m.Ports.Remember(a.key(p), p.External)
	}
	for _, p := range maps {
		if p.Auto {
			m.Ports.Remember(a.key(p), p.External)
			m.mu.Lock()
			a.dropMap(a.key(p))
			m.mu.Unlock()
			m.retire(a, p)
			continue
		}
		if err := m.Ports.Adopt(a.key(p), p.External); err != nil {
			rep.add(&rep.Errors, "agent %s: port %s: %v; it gets another when the agent is started", a.Name(), a.key(p), err)
		}
	}
}

// adoptPorts claims the maps that a running shim serves. A map that it does not serve was of a
// closed listener, or was being removed.
func (m *Manager) adoptPorts(a *Agent, st wire.Status) {
	a.mapping.Lock()
	defer a.mapping.Unlock()
	served := map[PortKey]bool{}
	for _, p := range st.Ports {
		k := PortKey{a.Name(), cmp.Or(p.Protocol, api.ProtoTCP), p.Internal}
		served[k] = true
		if err := m.Ports.Adopt(k, p.External); err != nil {
			m.Log.Error("port map not adopted", "agent", a.Name(), "port", k.String(), "err", err)
		}
		m.mu.Lock()
		kept, ok := find(a.Kept.PortMappings, k)
		if !ok { // the state has it among the known ones, or not yet
			kept, _ = find(a.Kept.KnownPorts, k)
			kept = store.PortMap{Internal: k.Internal, Protocol: k.Protocol, Bind: kept.Bind, Auto: p.Auto}
		}
		kept.External = p.External
		a.setMap(kept, p.Bind)
		m.mu.Unlock()
	}
	m.mu.Lock()
	maps := a.Kept.PortMappings
	m.mu.Unlock()
	for _, p := range maps {
		if k := a.key(p); !served[k] {
			m.mu.Lock()
			a.dropMap(k)
			m.mu.Unlock()
			m.retire(a, p)
		}
	}
}
