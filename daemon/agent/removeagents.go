package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"polis/daemon/api"
)

// RemoveAgents removes every agent of a workspace and admits no new one. Without force it removes
// none if any of them runs or has work that is stored nowhere else. After an error the workspace
// is unchanged, except for the removed agents, which it returns.
func (m *Manager) RemoveAgents(ctx context.Context, w *Workspace, force, ignored bool) (removed []api.RemoveResponse, err error) {
	m.mu.Lock()
	if w.leaving {
		m.mu.Unlock()
		return nil, api.Errorf(api.CodeBadState, "workspace %s is being removed from polis", w.Name)
	}
	w.leaving = true
	var names []string
	for name, a := range m.agents {
		if a.WS == w {
			names = append(names, name)
		}
	}
	m.mu.Unlock()
	defer func() {
		if err != nil {
			m.mu.Lock()
			w.leaving = false
			m.mu.Unlock()
		}
	}()
	slices.Sort(names)
	removed = []api.RemoveResponse{}
	if !force {
		if err := m.allClean(ctx, w, names); err != nil {
			return removed, err
		}
	}
	for _, name := range names {
		r, err := m.Remove(ctx, name, force, ignored)
		if api.CodeOf(err) == api.CodeAgentNotFound && err != nil {
			continue // another caller has removed it
		}
		if err != nil {
			return removed, fmt.Errorf("%w (%d of %d agents were removed)", err, len(removed), len(names))
		}
		removed = append(removed, r)
	}
	return removed, nil
}

// allClean returns an error if an agent could not be removed without force.
func (m *Manager) allClean(ctx context.Context, w *Workspace, names []string) error {
	var bad, why []string
	code := api.CodeBadState
	for _, name := range names {
		a, err := m.findFor(ctx, name, verbRemove)
		if err == nil {
			err = m.unsaved(ctx, a)
			a.op.Unlock()
		}
		if err != nil {
			bad, why = append(bad, name), append(why, err.Error())
			if api.CodeOf(err) == api.CodeUnsavedWork {
				code = api.CodeUnsavedWork
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return api.Errorf(code, "workspace %s is kept, and every agent in it: %s", w.Name, strings.Join(why, "; ")).With("agents", bad).
		WithHint("merge or stop them; --force removes all agents and keeps everything that is unsaved under refs/polis/trash")
}

// Forget removes an empty workspace from the manager, after RemoveAgents.
func (m *Manager) Forget(w *Workspace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.workspaces[w.Name] == w {
		delete(m.workspaces, w.Name)
	}
}

// UndoRemoveAgents undoes RemoveAgents for a workspace that could not be removed.
func (m *Manager) UndoRemoveAgents(w *Workspace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.leaving = false
}
