package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"polis/daemon/api"
	"polis/daemon/config"
)

// Roles are the roles of the configuration, by name.
func (m *Manager) Roles() []api.Role {
	c := m.config()
	out := []api.Role{}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		out = append(out, m.roleView(name, c.Roles[name]))
	}
	return out
}

// Role is one role.
func (m *Manager) Role(name string) (api.Role, error) {
	r, ok := m.config().Roles[name]
	if !ok {
		return api.Role{}, noRole(name)
	}
	return m.roleView(name, r), nil
}

func noRole(name string) error {
	return api.Errorf(api.CodeNotFound, "there is no role %q", api.Shorten(name, 64)).WithHint("polisctl roles list; roles are tables [roles.NAME] in polisd.toml")
}

func (m *Manager) roleView(name string, r config.Role) api.Role {
	v := api.Role{Name: name, Model: r.Model, Models: r.Models, Policy: r.Policy, Tools: r.Tools, Egress: r.Network.Egress, HostPorts: r.Network.HostPorts,
		Remote: string(r.Git.Remote), AutoCommit: r.AutoCommit, RemoveAfter: r.RemoveAfter, Leftovers: r.Leftovers, OnStall: r.Patrol.OnStall, Env: slices.Sorted(maps.Keys(r.Env))}
	v.Tools.Default = cmp.Or(v.Tools.Default, api.VerdictAsk)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.agents {
		if a.Kept.Role == name {
			v.Agents = append(v.Agents, a.Name())
		}
	}
	slices.Sort(v.Agents)
	for _, w := range m.workspaces {
		v.Remembered = append(v.Remembered, ofRole(w.Answers.Rules, name)...)
	}
	slices.SortFunc(v.Remembered, func(a, b api.ApprovalRule) int { return cmp.Compare(a.ID, b.ID) })
	return v
}

// roleModel is the model of the agent's role, for its base type.
func (m *Manager) roleModel(a *Agent) string {
	c := m.config()
	k := a.Copy()
	return c.RoleModel(k.Role, k.BaseType)
}

// modelOf is the model that a task's command line has: the task's own, or the role's if the line
// takes one. Other programs find it in their environment.
func (m *Manager) modelOf(a *Agent, t api.Task) string {
	if t.Model != "" || !a.Type.TakesModel(a.Kept.Command) {
		return t.Model
	}
	return m.roleModel(a)
}

// noModel returns a warning if the role of an agent has a model that its program does not learn.
func noModel(v api.Agent, t config.BaseType, model string) []string {
	if model == "" || t.TakesModel(v.Command) || t.ModelEnv != "" {
		return nil
	}
	return []string{fmt.Sprintf("role %s has the model %s, and the command line of agent %s does not say how to choose one: its program finds it in $POLIS_MODEL only", v.Role, model, v.Name)}
}

// ofRole are the answers that hold for all agents of a role.
func ofRole(rules []api.ApprovalRule, role string) (out []api.ApprovalRule) {
	for _, r := range rules {
		if r.Role == role {
			out = append(out, r)
		}
	}
	return out
}
