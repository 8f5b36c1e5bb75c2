package agent

import (
	"fmt"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/rules/delegate"
)

// Capacity is the machine's capacity for agents.
type Capacity struct {
	MemoryBytes int64 // the machine's, or polis's own limit
	Pids        int64 // number of process ids; 0: unknown
	FreeBytes   int64 // on the disk with the workspace
}

// WithMemory returns the capacity with the machine's memory, or with own if that is less: the limit
// that polis itself has, 0 for none.
func (c Capacity) WithMemory(machine, own uint64) Capacity {
	c.MemoryBytes = int64(machine)
	if own > 0 && own < machine {
		c.MemoryBytes = int64(own)
	}
	return c
}

// demand is the most that agents may use.
type demand struct {
	agents       int
	memory, pids int64
}

// admit refuses to start an agent that the machine has no room for, unless force. It reserves the
// room until leave is called; after that the running agent counts. Agents that polisd restores are
// not checked.
func (m *Manager) admit(a *Agent, force bool) (leave func(), err error) {
	if m.Capacity == nil {
		return func() {}, nil
	}
	has, err := m.Capacity(a.WS)
	if err != nil && !force {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *m.cfgLive
	if !force {
		if err := room(c, a, m.demand(c, a), has); err != nil {
			return nil, err
		}
	}
	a.coming = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		a.coming = false
	}, nil
}

// demand returns the demand of all agents that are up or starting, except one. m.mu is held.
func (m *Manager) demand(c config.Config, but *Agent) demand {
	var d demand
	for _, a := range m.agents {
		if a != but && (a.up || a.coming) {
			d.agents++
			own := delegate.BudgetOf(a.Kept.MemoryLimitMB, c.Limits.Agent(a.Kept.Limits)).Own(m.lent(a, nil))
			d.memory += int64(own.MemoryMB) << 20
			d.pids += int64(own.Pids)
		}
	}
	return d
}

// room refuses an agent if the limits of all agents, including it, exceed the capacity.
func room(c config.Config, a *Agent, others demand, has Capacity) error {
	const mb = 1 << 20
	adm := c.Admission
	refuse := func(what string, wants, given, limit int64, unit, how string) error {
		return api.Errorf(api.CodeHostOvercommitted, "agent %s may use %d%s of %s, the %d agents that live %d: together more than %d%s (%s)",
			a.Name(), wants, unit, what, others.agents, given, limit, unit, how).
			With("resource", what).With("wanted", wants).With("given", given).With("limit", limit).With("agents", others.agents).
			WithHint("stop an agent, give it less (polisctl agents set), use --force, or change [admission] in polisd.toml")
	}
	memory := has.MemoryBytes - int64(adm.ReserveMB)*mb
	of := fmt.Sprintf("memory %d MB less %d MB for the host", has.MemoryBytes/mb, adm.ReserveMB)
	if t := int64(c.Limits.Total.MemoryMB) * mb; t > 0 && t < memory {
		memory, of = t, "limits.total.memory_mb"
	}
	most := int64(float64(memory) * adm.Overcommit)
	if wants := int64(a.Kept.MemoryLimitMB) * mb; others.memory+wants > most {
		return refuse("memory", wants/mb, others.memory/mb, max(most, 0)/mb, " MB", fmt.Sprintf("%s, times %g", of, adm.Overcommit))
	}
	pids, from := has.Pids, "process numbers of the machine"
	if t := int64(c.Limits.Total.Pids); t > 0 && (t < pids || pids == 0) {
		pids, from = t, "limits.total.pids"
	}
	most = int64(float64(pids) * adm.Overcommit)
	if wants := int64(c.Limits.Agent(a.Kept.Limits).Pids); pids > 0 && others.pids+wants > most {
		return refuse("processes", wants, others.pids, most, "", fmt.Sprintf("%d %s, times %g", pids, from, adm.Overcommit))
	}
	if need := int64(adm.DiskFreeMB) * mb; has.FreeBytes < need {
		return api.Errorf(api.CodeHostOvercommitted, "agent %s: the disk with workspace %s has %d MB free, less than %d MB (admission.disk_free_mb)", a.Name(), a.WS.Name, has.FreeBytes/mb, adm.DiskFreeMB).
			With("resource", "disk").With("free", has.FreeBytes/mb).With("limit", adm.DiskFreeMB).
			WithHint("free space (polisctl gc), use --force, or change [admission] in polisd.toml")
	}
	return nil
}
