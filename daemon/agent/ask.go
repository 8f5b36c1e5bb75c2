package agent

import "polis/daemon/api"

func (m *Manager) upShim(name string) (*Agent, error) {
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !a.up {
		return nil, api.Errorf(api.CodeBadState, "agent %s is %s", name, a.Kept.Status).WithHint("polisctl agents start %s", name)
	}
	return a, nil
}

// Attach returns the socket of the agent's shim.
func (m *Manager) Attach(name string) (api.Attach, error) {
	if _, err := m.upShim(name); err != nil {
		return api.Attach{}, err
	}
	return api.Attach{Agent: name, Socket: m.Shims.Socket(name)}, nil
}

// Policy returns the agent's rules.
func (m *Manager) Policy(name string) (api.Policy, error) {
	a, err := m.lookup(name)
	if err != nil {
		return api.Policy{}, err
	}
	return a.Kept.Policy, nil
}
