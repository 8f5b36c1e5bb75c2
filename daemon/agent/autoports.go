package agent

import (
	"context"
	"slices"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
)

// autoMap maps a port the agent opened, unless it is mapped already.
func (m *Manager) autoMap(ctx context.Context, sh Shim, a *Agent, internal int) {
	if !m.config().Network.AutoMap {
		return
	}
	m.mu.Lock()
	mapped := slices.ContainsFunc(a.Kept.PortMappings, func(p [2]int) bool { return p[0] == internal })
	m.mu.Unlock()
	if mapped {
		return
	}
	if p, err := m.mapPort(ctx, sh, a, internal, 0, true); err != nil {
		m.Log.Warn("map port", "agent", a.Name(), "port", internal, "err", err)
		m.Events.Publish(api.Event{Type: api.EventPort, Agent: a.Name(), Code: api.CodeOf(err), Message: err.Error()})
	} else {
		m.publishPort(p, "is reachable at")
	}
}

// syncPorts maps and unmaps what was opened and closed in the agent while
// nobody listened.
func (m *Manager) syncPorts(ctx context.Context, sh Shim, a *Agent, st wire.Status) {
	if v, err := wire.Agree(st); err != nil || v < 2 {
		return // it does not tell
	}
	for _, p := range st.Listening {
		m.autoMap(ctx, sh, a, p)
	}
	for _, p := range st.Ports {
		if p.Auto && !slices.Contains(st.Listening, p.Internal) {
			m.unmap(ctx, sh, a, p.Internal)
		}
	}
}

// unmap ends the map of a port the agent closed, if polis had mapped it by itself.
func (m *Manager) unmap(ctx context.Context, sh Shim, a *Agent, internal int) {
	st, err := sh.Status(ctx)
	if err != nil {
		return
	}
	i := slices.IndexFunc(st.Ports, func(p api.PortMapping) bool { return p.Internal == internal && p.Auto })
	if i < 0 {
		return
	}
	if err := sh.RemovePort(ctx, internal); err != nil && api.CodeOf(err) != api.CodePortNotFound {
		m.Log.Warn("unmap port", "agent", a.Name(), "port", internal, "err", err)
		return
	}
	m.dropPort(a, internal)
	m.publishPort(st.Ports[i], "is no longer reachable at")
}

func (m *Manager) publishPort(p api.PortMapping, verb string) {
	m.Events.Publish(api.Event{Type: api.EventPort, Agent: p.Agent,
		Message: "port " + itoa(p.Internal) + " of agent " + p.Agent + " " + verb + " " + p.Bind + ":" + itoa(p.External),
		Data:    map[string]any{"internal": p.Internal, "external": p.External}})
}

func (m *Manager) mapPort(ctx context.Context, sh Shim, a *Agent, internal, want int, auto bool) (api.PortMapping, error) {
	c := m.config()
	for try := 0; ; try++ {
		ext, err := m.Ports.Take(a.Name(), internal, want)
		if err != nil {
			return api.PortMapping{}, err
		}
		err = sh.AddPort(ctx, wire.PortRequest{Internal: internal, External: ext, Bind: c.Network.Bind, Auto: auto})
		if api.CodeOf(err) == api.CodePortInUse && (want == 0 || try > 0) && try < 16 {
			// Somebody else on the host has it: the next one.
			m.Ports.Release(a.Name(), internal)
			want = ext + 1
			continue
		}
		if err != nil {
			m.Ports.Release(a.Name(), internal)
			return api.PortMapping{}, err
		}
		m.mu.Lock()
		a.Kept.PortMappings = append(a.Kept.PortMappings, [2]int{internal, ext})
		a.markAuto(internal, auto)
		m.mu.Unlock()
		if err := m.save(a.WS); err != nil {
			m.Log.Error("save state", "agent", a.Name(), "err", err)
		}
		return api.PortMapping{Agent: a.Name(), Internal: internal, External: ext, Protocol: "tcp", Bind: c.Network.Bind, Auto: auto}, nil
	}
}

func (m *Manager) dropPort(a *Agent, internal int) {
	m.mu.Lock()
	a.Kept.PortMappings = slices.DeleteFunc(slices.Clone(a.Kept.PortMappings), func(p [2]int) bool { return p[0] == internal })
	m.mu.Unlock()
	m.Ports.Release(a.Name(), internal)
	if err := m.save(a.WS); err != nil {
		m.Log.Error("save state", "agent", a.Name(), "err", err)
	}
}

// markAuto notes who made a map; the manager's mutex is held.
func (a *Agent) markAuto(internal int, auto bool) {
	if a.auto == nil {
		a.auto = map[int]bool{}
	}
	if auto {
		a.auto[internal] = true
	} else {
		delete(a.auto, internal)
	}
}

// dropAuto forgets the maps that polis made by itself: their listeners are
// gone with the agent's processes.
func (m *Manager) dropAuto(a *Agent) {
	m.mu.Lock()
	auto := a.auto
	a.auto = nil
	a.Kept.PortMappings = slices.DeleteFunc(slices.Clone(a.Kept.PortMappings), func(p [2]int) bool { return auto[p[0]] })
	m.mu.Unlock()
	for internal := range auto {
		m.Ports.Release(a.Name(), internal)
	}
}
