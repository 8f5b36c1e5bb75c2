package agent

import (
	"slices"

	"polis/daemon/api"
)

// Policies returns the rules of the agents of a workspace, which apply from their next start at
// the latest.
func (m *Manager) Policies(workspace string) map[string]api.Policy {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]api.Policy{}
	for name, a := range m.agents {
		if a.WS.Name == workspace {
			out[name] = a.Kept.Policy
		}
	}
	return out
}

// sameReading reports whether two policies certainly allow to read the same.
func sameReading(a, b api.Policy) bool {
	return slices.Equal(a.Read, b.Read) && slices.Equal(a.Write, b.Write) && slices.Equal(a.Ask, b.Ask) && slices.Equal(a.Deny, b.Deny) && slices.Equal(a.Hide, b.Hide)
}
