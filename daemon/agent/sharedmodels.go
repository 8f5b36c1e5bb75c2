package agent

import (
	"context"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/store"
)

// shareTime bounds the grant of a part of a shared budget, which can reclaim parts of other agents.
const shareTime = 30 * time.Second

// grantModels grants an agent its next part of the budget for models that its role shares. The shim asks again if it gets
// none.
func (m *Manager) grantModels(a *Agent) {
	ctx, cancel := context.WithTimeout(m.ctx, shareTime)
	defer cancel()
	if err := m.Shims.GrantModels(ctx, a); err != nil && m.ctx.Err() == nil {
		m.Log.Warn("part of the shared model budget not granted", "agent", a.Name(), "err", err)
	}
}

// raiseModels raises the budget for models that a role shares, as a person has answered an agent's question. The role is the
// one that polisd knows of the agent.
func (m *Manager) raiseModels(ctx context.Context, a *Agent, e api.Event) {
	bound, _ := e.Data["bound"].(string)
	day, _ := e.Data["day"].(string)
	to, _ := e.Data["to"].(float64)
	if role, _ := e.Data["role"].(string); role == "" || role != a.Copy().Role {
		return
	}
	if err := m.Shims.RaiseModels(ctx, a.Copy().Role, bound, day, to); err != nil {
		m.Log.Error("shared model budget not raised", "agent", a.Name(), "err", err)
	}
}

// Placed is an agent by the directory of its logs, which outlives it.
type Placed struct {
	Logs string
	Role string
	Up   bool
}

// Everyone returns all agents, also those that are stopped or were removed and can be restored.
func (m *Manager) Everyone() []Placed {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Placed
	known := map[string]bool{}
	add := func(w *Workspace, k store.Agent, up bool) {
		if dir := w.Root.Logs(k.Name); !known[dir] {
			known[dir] = true
			out = append(out, Placed{Logs: filepath.Clean(dir), Role: k.Role, Up: up})
		}
	}
	for _, a := range m.agents {
		add(a.WS, a.Kept, a.up && !a.foreign)
	}
	for _, w := range m.workspaces {
		for _, r := range w.Removed {
			add(w, r.Agent, false)
		}
	}
	return out
}
