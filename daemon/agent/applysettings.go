package agent

import (
	"context"
	"errors"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/rules/delegate"
	"polis/daemon/store"
)

// enact saves the settings, then sends them to the running shim. If the daemon dies in between,
// the next one sends them.
func (m *Manager) enact(ctx context.Context, a *Agent, old, now store.Agent, force bool) error {
	if err := m.claimSettings(a, now); err != nil {
		return err
	}
	if err := m.save(a.WS); err != nil {
		m.putSettings(a, old)
		return err
	}
	m.crash("set:kept")
	err := m.applySettings(ctx, a, force)
	if err == nil {
		return nil
	}
	m.putSettings(a, old)
	err = errors.Join(err, m.save(a.WS))
	if api.CodeOf(err) == api.CodeShimUnavailable {
		// The shim did not answer. It can have applied them nevertheless.
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if berr := m.applySettings(uctx, a, true); berr != nil {
			m.Log.Error("settings not restored", "agent", a.Name(), "err", berr)
		}
	}
	return err
}

// claimSettings is putSettings, unless the rules overlap with other agents' exclusive paths.
func (m *Manager) claimSettings(a *Agent, k store.Agent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.contested(a, k.Policy); err != nil {
		return err
	}
	if c := m.cfgLive.Limits; delegate.BudgetOf(k.MemoryLimitMB, c.Agent(k.Limits)).Exceeds(delegate.BudgetOf(a.Kept.MemoryLimitMB, c.Agent(a.Kept.Limits))) {
		if err := m.takesTooMuch(a, k); err != nil {
			return err
		}
	}
	a.put(k)
	return nil
}

// putSettings sets what Set can change, and nothing that other operations change.
func (m *Manager) putSettings(a *Agent, k store.Agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.put(k)
}

// put copies settings; the manager's mu is held.
func (a *Agent) put(k store.Agent) {
	a.Kept.MemoryLimitMB, a.Kept.Limits, a.Kept.Role, a.Kept.Policy, a.Kept.AutoMerge = k.MemoryLimitMB, k.Limits, k.Role, k.Policy, k.AutoMerge
	a.Kept.Egress, a.Kept.HostPorts, a.Kept.RulesLost, a.Kept.RemoveAfter, a.Kept.Env = k.Egress, k.HostPorts, k.RulesLost, k.RemoveAfter, k.Env
	a.Kept.Leftovers, a.Kept.Recording = k.Leftovers, k.Recording
}

// applySettings sends the agent's settings to its shim, if it runs.
func (m *Manager) applySettings(ctx context.Context, a *Agent, force bool) error {
	if err := m.endRecording(a); err != nil {
		return err
	}
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if !up {
		return nil
	}
	now := m.Shims.Settings(a)
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return err
	}
	if v, err := wire.Agree(st); err != nil || v < wire.SettingsVersion {
		return api.Errorf(api.CodeBadState, "agent %s was started by an older polis: it cannot be changed while it lives", a.Name()).
			WithHint("polisctl agents stop %[1]s, then set, then polisctl agents start %[1]s", a.Name())
	}
	if err := m.give(ctx, sh, a, st, wire.SettingsRequest{Settings: now, Force: force}); err != nil {
		return err
	}
	m.crash("set:applied")
	if err := m.Shims.SendModels(ctx, a); err != nil {
		// The agent's program gets an error of the endpoint. Its other settings are in force.
		m.Log.Warn("model services not applied", "agent", a.Name(), "err", err, "hint", api.AsError(err).Hint)
	}
	if err := m.Shims.Note(a, now); err != nil {
		// It is only read if the state is lost.
		m.Log.Warn("agent's settings not recorded", "agent", a.Name(), "err", err)
	}
	return nil
}

// Refresh applies the present configuration to every running agent.
func (m *Manager) Refresh() {
	m.mu.Lock()
	var as []*Agent
	for _, a := range m.agents {
		as = append(as, a)
	}
	m.mu.Unlock()
	for _, a := range as {
		m.refresh(a)
	}
}

// refresh applies the present settings to a running agent as soon as no other operation runs.
func (m *Manager) refresh(a *Agent) {
	m.wg.Go(func() {
		err := m.applyOwn(m.ctx, a, false)
		if err == nil {
			err = m.narrowWorkers(m.ctx, a, false) // the configuration can have less for them
		}
		m.mu.Lock()
		gone := m.agents[a.Name()] != a
		m.mu.Unlock()
		if err != nil && !gone && m.ctx.Err() == nil {
			m.Log.Warn("limits configured now not applied", "agent", a.Name(), "err", err)
		}
	})
}
