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

// Report is the result of a reconciliation (seed 000, "State Reconciliation on Startup").
type Report struct {
	api.ReconcileReport
	mu sync.Mutex
}

// Tree is an existing worktree, broken or not.
type Tree struct {
	Name string
	// Broken is why it cannot be used; nil if it can.
	Broken error
	// Missing means that its files are gone and only git's records are left.
	Missing bool
}

func (r *Report) add(list *[]string, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

// Heal records what was completed or undone.
func (r *Report) Heal(format string, args ...any) { r.add(&r.Healed, format, args...) }

// Fail records what failed.
func (r *Report) Fail(format string, args ...any) { r.add(&r.Errors, format, args...) }

// Restore compares the saved agents of a workspace with the existing worktrees and reconciles
// both. trees is nil for a workspace without git.
func (m *Manager) Restore(ctx context.Context, ws *Workspace, kept []store.Agent, trees []Tree, rep *Report) {
	types, err := m.Types()
	if err != nil {
		rep.add(&rep.Errors, "base types: %v", err)
		types = map[string]config.BaseType{}
	}
	there := make(map[string]Tree, len(trees))
	for _, t := range trees {
		there[t.Name] = t
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
		a.Kept.StatusSince = m.loadSince(ws, k)
		tree, listed := there[k.Name]
		missing := ws.Git && (!listed || tree.Missing)
		m.mu.Lock()
		_, taken := m.agents[k.Name]
		if !taken {
			m.agents[k.Name] = a
		}
		m.mu.Unlock()
		switch {
		case taken:
			rep.add(&rep.Errors, "%s: %s: agent %s of workspace %s is in the state twice, or in another workspace's; the first counts", k.Name, api.CodeReconcileConflict, k.Name, ws.Name)
			continue
		}
		m.claimPorts(a, rep) // before any agent gets another port
		switch {
		case (k.Removal != nil || k.Status == api.StatusCreating || missing) && m.halted(ctx):
			rep.add(&rep.Kept, "%s (%s): the daemon is stopping; the next one continues", k.Name, k.Status)
			continue
		case k.Removal != nil:
			m.finishRemoval(ctx, a, rep)
			continue
		case k.Status == api.StatusCreating || missing:
			m.heal(ctx, a, missing && k.Status != api.StatusCreating, rep)
			continue
		}
		if tree.Broken != nil && m.skip(ctx, a, tree.Broken, rep) {
			continue
		}
		todo = append(todo, a)
	}
	for _, tree := range trees {
		name := tree.Name
		m.mu.Lock()
		_, known := m.agents[name]
		m.mu.Unlock()
		if known || slices.ContainsFunc(kept, func(k store.Agent) bool { return k.Name == name }) || api.CheckName(name) != nil {
			continue
		}
		if a, err := m.minimal(ctx, ws, name, types, rep); err != nil {
			rep.add(&rep.Errors, "worktree %s: %v", name, err)
		} else {
			rep.add(&rep.Found, "%s: %s: worktree without state; the file system counts: entered with defaults", name, api.CodeReconcileConflict)
			if tree.Broken != nil && m.skip(ctx, a, tree.Broken, rep) {
				continue
			}
			todo = append(todo, a)
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, a := range todo {
		slots <- struct{}{}
		wg.Go(func() { defer func() { <-slots }(); m.revive(ctx, a, rep); m.mendTasks(a) })
	}
	wg.Wait()
	if err := m.save(ws); err != nil {
		rep.add(&rep.Errors, "%v", err)
	}
}
