package agent

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Sweep removes resources of agents that do not exist.
func (m *Manager) Sweep(ctx context.Context, rep *Report) {
	lists := []struct {
		name   string
		list   func(context.Context) ([]string, error)
		remove func(context.Context, *Agent) error
	}{{"shim", m.Shims.List, m.Shims.Remove}}
	for _, r := range m.Resources {
		lists = append(lists, struct {
			name   string
			list   func(context.Context) ([]string, error)
			remove func(context.Context, *Agent) error
		}{r.Name(), r.List, r.Remove})
	}
	for _, l := range lists {
		names, err := l.list(ctx)
		if err != nil {
			rep.add(&rep.Errors, "list %s: %v", l.name, err)
			continue
		}
		for _, n := range names {
			m.mu.Lock()
			_, known := m.agents[n]
			m.mu.Unlock()
			if known || api.CheckName(n) != nil {
				continue
			}
			what := "left-over " + l.name + " removed"
			if l.name == "shim" {
				what = m.orphans(ctx, n) + what
			}
			if err := l.remove(ctx, &Agent{WS: &Workspace{}, Kept: store.Agent{Name: n}}); err != nil {
				rep.add(&rep.Errors, "remove %s of unknown agent %s: %v", l.name, n, err)
				continue
			}
			if l.name == "shim" {
				m.Locks.DropAgent(n)
			}
			rep.add(&rep.Healed, "%s: %s", n, what)
		}
	}
}

// orphans returns a message if processes of an unknown agent run. They end with the shim, whose
// control group is killed as a whole.
func (m *Manager) orphans(ctx context.Context, name string) string {
	alive, err := m.Shims.Alive(ctx, &Agent{WS: &Workspace{}, Kept: store.Agent{Name: name}})
	if err != nil || !alive {
		return ""
	}
	m.Log.Warn("killing the processes of an unknown agent", "agent", name, "code", api.CodeOrphanProcs)
	return string(api.CodeOrphanProcs) + ": "
}
