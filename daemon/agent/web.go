package agent

import (
	"context"
	"slices"
	"sort"

	"polis/daemon/api"
)

// Web returns the TCP ports that an agent listens on: the mapped ones first, in the order of their
// mapping.
func (m *Manager) Web(ctx context.Context, name string) ([]int, error) {
	a, err := m.upShim(name)
	if err != nil {
		return nil, err
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return nil, err
	}
	open := st.Listening
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []int
	for _, p := range a.Kept.PortMappings {
		if p.Protocol == api.ProtoTCP && slices.Contains(open, p.Internal) {
			out = append(out, p.Internal)
		}
	}
	for _, p := range open {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// Up returns the agents that are up, sorted.
func (m *Manager) Up() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for name, a := range m.agents {
		if a.up && !a.foreign {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// Place returns the network of an agent that is up.
func (m *Manager) Place(name string) (Network, error) {
	a, err := m.upShim(name)
	if err != nil {
		return Network{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.Network, nil
}
