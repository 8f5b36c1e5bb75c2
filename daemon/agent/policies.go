package agent

import (
	"slices"

	"polis/daemon/api"
	"polis/fusefs/policy"
)

// Policies returns the rules of the agents of a workspace, which apply from their next start at
// the latest.
func (m *Manager) Policies(workspace string) map[string]api.Policy {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]api.Policy{}
	for name, a := range m.agents {
		if a.WS.Name == workspace {
			out[name] = a.Kept.Rules()
		}
	}
	return out
}

// ReadsAll reports whether the rules of an agent certainly withhold no file from reading. What record mode allows it
// meanwhile does not count.
func (m *Manager) ReadsAll(name string) bool {
	a, err := m.lookup(name)
	if err != nil {
		return false
	}
	k := a.Copy()
	return !k.RulesLost && readsAll(k.Policy)
}

// Sparse returns the sparse checkout that an agent's worktree is made with; nil: all files.
func (m *Manager) Sparse(name string) *api.Sparse {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.agents[name]; ok {
		return a.Kept.Sparse.Clone()
	}
	return nil
}

// NoteSparse records the sparse checkout that an agent's worktree has now. It saves it only if that is another one.
func (m *Manager) NoteSparse(name string, s *api.Sparse) error {
	m.mu.Lock()
	a, ok := m.agents[name]
	if !ok || a.Kept.Sparse != nil && slices.Equal(a.Kept.Sparse.Directories, s.Directories) {
		m.mu.Unlock()
		return nil
	}
	a.Kept.Sparse = s.Clone()
	m.mu.Unlock()
	return m.save(a.WS)
}

// readsAll reports whether a policy certainly withholds no file from reading.
func readsAll(p api.Policy) bool {
	set, err := policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide})
	return err == nil && set.AllReadable()
}

// sameReading reports whether two policies certainly allow to read the same.
func sameReading(a, b api.Policy) bool {
	return slices.Equal(a.Read, b.Read) && slices.Equal(a.Write, b.Write) && slices.Equal(a.Ask, b.Ask) && slices.Equal(a.Deny, b.Deny) && slices.Equal(a.Hide, b.Hide)
}
