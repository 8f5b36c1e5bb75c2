package agent

import (
	"slices"

	"polis/daemon/api"
	"polis/daemon/git"
)

// HolderOf returns the agent that made a ref of a workspace, or whose branch it is; "" for none. The branch of except does not count.
func (m *Manager) HolderOf(workspace, ref, except string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, a := range m.agents {
		if a.WS.Name == workspace && (slices.Contains(a.Kept.OwnedRefs, ref) || name != except && git.Branch(a.Kept.Branch) == ref) {
			return name
		}
	}
	return ""
}

// Making returns the agent's name while it is being made; else "".
func (a *Agent) Making() string {
	if k := a.Copy(); k.Status == api.StatusCreating {
		return k.Name
	}
	return ""
}

// Named reports whether the agent is being made for a branch that a person has named, which can be one of the project's.
func (a *Agent) Named() bool {
	k := a.Copy()
	return a.Making() != "" && k.Branch != "" && k.Branch != "agent/"+k.Name && k.Base == "" && k.Restoring == nil
}
