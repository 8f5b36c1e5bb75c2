package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// takeDown stops the shim and its ephemeral resources, keeping worktree and state. a.op is held.
func (m *Manager) takeDown(ctx context.Context, a *Agent) error {
	m.mu.Lock()
	a.leaving = true
	follow := a.follow
	a.follow, a.up, a.foreign, a.pid, a.Kept.CgroupPath = nil, false, false, 0, ""
	m.mu.Unlock()
	if follow != nil {
		follow()
	}
	err := m.Shims.Remove(ctx, a)
	m.Locks.DropAgent(a.Name())
	if err != nil {
		return err // it may still be in use
	}
	m.crash("down:shim")
	m.dropAuto(a)
	var errs []error
	for _, r := range slices.Backward(m.Resources) {
		if e, ok := r.(Ephemeral); ok {
			if err := e.Remove(ctx, a); err != nil {
				errs = append(errs, fmt.Errorf("remove %s of agent %s: %w", r.Name(), a.Name(), err))
			}
			m.crash("down:" + r.Name())
		}
	}
	return errors.Join(errs...)
}

// dismantle removes all resources of the agent, in reverse order.
func (m *Manager) dismantle(ctx context.Context, a *Agent) error {
	errs := []error{m.takeDown(ctx, a)}
	for i := len(m.Resources) - 1; i >= 0; i-- {
		if err := m.Resources[i].Remove(ctx, a); err != nil {
			errs = append(errs, fmt.Errorf("remove %s of agent %s: %w", m.Resources[i].Name(), a.Name(), err))
		}
		m.crash("gone:" + m.Resources[i].Name())
	}
	return errors.Join(errs...)
}

// forget removes the agent from the state.
func (m *Manager) forget(a *Agent) error {
	m.mu.Lock()
	delete(m.agents, a.Name())
	p := m.parent(a)
	m.mu.Unlock()
	if p != nil {
		m.refresh(p) // which has again what it gave to its worker
	}
	m.Ports.ForgetAgent(a.Name())
	m.dropAnswers(a)
	m.Locks.ReleaseMerge(a.Name())
	if a.WS.Queue != nil {
		if _, err := a.WS.Queue.Remove(a.Name()); err != nil {
			return err
		}
	}
	return m.save(a.WS)
}
