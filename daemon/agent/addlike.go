package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/store"
)

// AddLike adds an ephemeral agent with the type, the rules and the limits of another one, on a branch
// of its own.
func (m *Manager) AddLike(ctx context.Context, other, name string) (api.Agent, error) {
	a, err := m.lookup(other)
	if err != nil {
		return api.Agent{}, err
	}
	k := a.Copy()
	if k.RulesLost {
		return api.Agent{}, rulesLost(other)
	}
	add := like(k, a.WS.Name, name)
	add.Ephemeral = true
	return m.Add(ctx, add)
}

// like is a request for another agent with the type, the rules and the limits of an agent. It gets no path exclusively:
// those stay the other agent's.
func like(k store.Agent, workspace, name string) api.AddRequest {
	pol := k.Policy
	pol.Exclusive = nil
	return api.AddRequest{
		Name: name, BaseType: k.BaseType,
		AgentSpec: api.AgentSpec{
			Workspace: workspace, Role: k.Role, Command: slices.Clone(k.Command), Policy: &pol, MemoryMB: k.MemoryLimitMB, Limits: k.Limits,
			Egress: slices.Clone(k.Egress), HostPorts: slices.Clone(k.HostPorts),
		},
		AutoMerge: k.AutoMerge, Leftovers: k.Leftovers, Env: maps.Clone(k.Env), Cone: k.Sparse.Clone(), NoSparse: k.Sparse == nil,
	}
}

// Added returns when an agent was added; false if there is none of that name.
func (m *Manager) Added(name string) (time.Time, bool) {
	a, err := m.lookup(name)
	if err != nil {
		return time.Time{}, false
	}
	return a.Copy().CreatedAt, true
}

// rulesLost refuses to give another agent rules that are not known.
func rulesLost(name string) error {
	return api.Errorf(api.CodeBadState, "the rules of agent %s are lost", name).WithHint("polisctl agents set %s --role ROLE gives it rules", name)
}

// GivenTask returns the newest task of an agent with this prompt; "" if there is none.
func (m *Manager) GivenTask(name, prompt string) (string, error) {
	a, err := m.lookup(name)
	if err != nil {
		return "", err
	}
	created := a.Copy().CreatedAt
	found, err := m.records(a).List(1, func(t api.Task) bool { return t.Prompt == prompt && t.Via == "" && !t.Time.Before(created) })
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].ID, nil
}

// WorkModel returns the model that an agent's newest task was run with, and a task that continues its work is run
// with; "" if none was chosen.
func (m *Manager) WorkModel(name string) string {
	a, err := m.lookup(name)
	if err != nil {
		return ""
	}
	m.mu.Lock()
	takes := a.Type.TakesModel(a.Kept.Command)
	m.mu.Unlock()
	if !takes {
		return ""
	}
	return m.lastBegun(a).Model
}

// workModel is WorkModel of an agent. a.op is held.

func (m *Manager) workModel(a *Agent) string {
	if !a.Type.TakesModel(a.Kept.Command) {
		return ""
	}
	return m.lastBegun(a).Model
}
