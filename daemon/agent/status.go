package agent

import (
	"context"
	"fmt"

	"polis/daemon/api"
)

// findFor is find for a verb that the agent's state must allow. An agent that is still being
// added is refused at once.
func (m *Manager) findFor(ctx context.Context, name, verb string) (*Agent, error) {
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	if st := a.status(m); st == api.StatusCreating {
		return nil, permit(name, st, verb)
	}
	if a, err = m.find(ctx, name); err != nil {
		return nil, err
	}
	if verb == verbRemove {
		if a, err = m.whenIdle(ctx, a); err != nil {
			return nil, err
		}
	}
	if err := permit(name, a.status(m), verb); err != nil {
		a.op.Unlock()
		return nil, err
	}
	return a, nil
}

// setStatus changes the state, publishes the change and saves it. A transition that the table
// lacks is a bug: setStatus logs it and does not make it.
func (m *Manager) setStatus(a *Agent, s api.Status, reason string) {
	m.mu.Lock()
	from := a.Kept.Status
	m.mu.Unlock()
	if !May(from, s) {
		m.Log.Error("state transition not allowed", "agent", a.Name(), "from", from, "to", s, "reason", reason)
		return
	}
	m.found(a, s, reason)
}

// found sets a state that reconciliation found, regardless of the saved one.
func (m *Manager) found(a *Agent, s api.Status, reason string) {
	m.foundUnless(a, s, reason, func() bool { return false })
}

// foundUnless is found, unless stale, which is called with m.mu held, reports that the state is of
// the past. It reports whether the state was set.
func (m *Manager) foundUnless(a *Agent, s api.Status, reason string, stale func() bool) bool {
	m.mu.Lock()
	if stale() {
		m.mu.Unlock()
		return false
	}
	old := a.Kept.Status
	a.Kept.Status, a.Kept.StatusReason = s, reason
	if old != s {
		a.Kept.StatusSince = m.Now().UTC()
	}
	if s != api.StatusRunning {
		m.clearExiting(a)
	}
	m.mu.Unlock()
	if old != s {
		msg := fmt.Sprintf("agent %s: %s -> %s", a.Name(), old, s)
		if reason != "" {
			msg += " (" + reason + ")"
		}
		m.Log.Info("agent changed its state", "agent", a.Name(), "from", old, "to", s, "reason", reason)
		m.Events.Publish(api.Event{Type: api.EventAgentStatus, Agent: a.Name(), Message: msg,
			Data: map[string]any{"from": old, "to": s, "reason": reason}})
	}
	if old != s {
		m.saveSince(a)
	}
	if err := m.save(a.WS); err != nil {
		m.Log.Error("state not saved", "agent", a.Name(), "err", err)
	}
	m.over(a)
	return true
}

// crash is a point at which tests kill the daemon in the middle of a change.
func (m *Manager) crash(step string) {
	if m.Crash != nil {
		m.Crash(step)
	}
}
