package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
)

// Report is what a reconciliation found and did (seed 000, "State
// Reconciliation on Startup").
type Report struct {
	Adopted  []string `json:"adopted"`  // their shim lived on
	Restored []string `json:"restored"` // brought up again
	Kept     []string `json:"kept"`     // known, and not up
	Dropped  []string `json:"dropped"`  // state without worktree
	Found    []string `json:"found"`    // worktree without state
	Healed   []string `json:"healed"`   // half-made or left over, removed
	Errors   []string `json:"errors"`
	mu       sync.Mutex
}

func (r *Report) add(list *[]string, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

// Summary is the report in one line.
func (r *Report) Summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d adopted, %d restored, %d kept, %d dropped, %d found, %d healed, %d errors",
		len(r.Adopted), len(r.Restored), len(r.Kept), len(r.Dropped), len(r.Found), len(r.Healed), len(r.Errors))
}

// Restore compares the kept agents of a workspace with the worktrees that are
// there and brings both together. worktrees is nil for a workspace without git.
func (m *Manager) Restore(ctx context.Context, ws *Workspace, kept []store.Agent, worktrees []string, rep *Report) {
	types, err := m.Types()
	if err != nil {
		rep.add(&rep.Errors, "base types: %v", err)
		types = map[string]config.BaseType{}
	}
	var todo []*Agent
	for _, k := range kept {
		a := &Agent{WS: ws, Type: types[k.BaseType], Kept: k}
		if a.Type.Name == "" {
			a.Type = config.BaseType{Name: k.BaseType}
		}
		if err := api.CheckName(k.Name); err != nil {
			rep.add(&rep.Errors, "state of workspace %s: %v", ws.Name, err)
			continue
		}
		missing := ws.Git && !slices.Contains(worktrees, k.Name)
		m.mu.Lock()
		_, taken := m.agents[k.Name]
		if !taken {
			m.agents[k.Name] = a
		}
		m.mu.Unlock()
		switch {
		case taken:
			rep.add(&rep.Errors, "agent %s of workspace %s: another workspace has an agent of that name", k.Name, ws.Name)
			continue
		case k.Status == api.StatusCreating || missing:
			m.heal(ctx, a, missing && k.Status != api.StatusCreating, rep)
			continue
		}
		todo = append(todo, a)
	}
	for _, name := range worktrees {
		m.mu.Lock()
		_, known := m.agents[name]
		m.mu.Unlock()
		if known || slices.ContainsFunc(kept, func(k store.Agent) bool { return k.Name == name }) || api.CheckName(name) != nil {
			continue
		}
		if a, err := m.minimal(ws, name, types); err != nil {
			rep.add(&rep.Errors, "worktree %s: %v", name, err)
		} else {
			rep.add(&rep.Found, "%s: worktree without state, entered with defaults", name)
			todo = append(todo, a)
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, a := range todo {
		slots <- struct{}{}
		wg.Go(func() { defer func() { <-slots }(); m.revive(ctx, a, rep) })
	}
	wg.Wait()
	if err := m.save(ws); err != nil {
		rep.add(&rep.Errors, "%v", err)
	}
}

// heal finishes the removal of an agent that was never whole or has lost its worktree.
func (m *Manager) heal(ctx context.Context, a *Agent, missing bool, rep *Report) {
	a.op.Lock()
	defer a.op.Unlock()
	ctx, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	if err := m.dismantle(ctx, a); err != nil {
		rep.add(&rep.Errors, "agent %s: %v", a.Name(), err)
	}
	if err := m.forget(a); err != nil {
		rep.add(&rep.Errors, "agent %s: %v", a.Name(), err)
	}
	if missing {
		m.Log.Error("the agent's worktree is missing, dropped from the state", "agent", a.Name(), "code", api.CodeWorktreeMissing)
		rep.add(&rep.Dropped, "%s: %s", a.Name(), api.CodeWorktreeMissing)
		return
	}
	rep.add(&rep.Healed, "%s: was being added when the daemon ended", a.Name())
}

// minimal enters a worktree that the state does not know.
func (m *Manager) minimal(ws *Workspace, name string, types map[string]config.BaseType) (*Agent, error) {
	sess, err := secret()
	if err != nil {
		return nil, err
	}
	sec, err := secret()
	if err != nil {
		return nil, err
	}
	a := &Agent{WS: ws, Type: types["custom"], Kept: store.Agent{Name: name, BaseType: "custom", Branch: "agent/" + name,
		MemoryLimitMB: m.config().Limits.MemoryMB, PortMappings: [][2]int{}, CreatedAt: m.Now().UTC(), Status: api.StatusStopped, Session: sess, Secret: sec,
		StatusReason: "found without state: its role, rules and limits are not known any more"}}
	if sp, ok := m.Shims.Spec(name); ok && sp.Workspace == ws.Name {
		m.fromSpec(a, sp, types)
	}
	m.Log.Warn("a worktree without state was found", "agent", name, "shim", a.Kept.Generation > 0)
	m.mu.Lock()
	m.agents[name] = a
	m.mu.Unlock()
	return a, nil
}

// Sweep removes what resources hold for agents nobody knows.
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
			if err := l.remove(ctx, &Agent{WS: &Workspace{}, Kept: store.Agent{Name: n}}); err != nil {
				rep.add(&rep.Errors, "remove %s of unknown agent %s: %v", l.name, n, err)
				continue
			}
			rep.add(&rep.Healed, "%s: left-over %s removed", n, l.name)
		}
	}
}
