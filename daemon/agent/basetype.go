package agent

import (
	"context"
	"reflect"
)

// renewType reads the agent's base type again: a changed file applies to what is started next. If
// the files cannot be read, or the type is removed, the old type stays. a.op is held.
func (m *Manager) renewType(ctx context.Context, a *Agent) {
	t, ok, err := m.Type(a.Kept.BaseType)
	if err != nil {
		m.Log.Warn("base types not read, agent started with its old type", "agent", a.Name(), "err", err)
		return
	}
	if !ok {
		m.Log.Warn("base type removed, agent started with its old type", "agent", a.Name(), "type", a.Kept.BaseType)
		return
	}
	m.mu.Lock()
	same := reflect.DeepEqual(t, a.Type)
	a.Type = t
	m.mu.Unlock()
	if same {
		return
	}
	m.Log.Info("base type changed", "agent", a.Name(), "type", a.Kept.BaseType)
	if err := m.applySettings(ctx, a, false); err != nil {
		m.Log.Warn("changed base type not applied", "agent", a.Name(), "err", err)
	}
}
