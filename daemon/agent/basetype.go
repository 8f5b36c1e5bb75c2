package agent

import (
	"context"
	"reflect"
)

// renewType reads the agent's base type again: a changed file counts for what is started
// next. If the files cannot be read, or the type is no more, it stays as it is. a.op is held.
func (m *Manager) renewType(ctx context.Context, a *Agent) {
	types, err := m.Types()
	if err != nil {
		m.Log.Warn("the base types cannot be read; the agent is started as its type was", "agent", a.Name(), "err", err)
		return
	}
	t, ok := types[a.Kept.BaseType]
	if !ok {
		m.Log.Warn("the base type is no more; the agent is started as it was", "agent", a.Name(), "type", a.Kept.BaseType)
		return
	}
	m.mu.Lock()
	same := reflect.DeepEqual(t, a.Type)
	a.Type = t
	m.mu.Unlock()
	if same {
		return
	}
	m.Log.Info("the base type has changed", "agent", a.Name(), "type", a.Kept.BaseType)
	if err := m.applySettings(ctx, a, false); err != nil {
		m.Log.Warn("the agent does not have what its changed base type says", "agent", a.Name(), "err", err)
	}
}
