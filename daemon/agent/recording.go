package agent

import (
	"polis/daemon/config"
	"polis/daemon/store"
)

// recordsPolicy reports whether an agent is to be in record mode: what it uses is recorded, and its lists read
// and write do not restrict it. A worker of an agent never is, because it would have more rights
// than that agent gave it. m.mu is held.
func (m *Manager) recordsPolicy(k store.Agent) bool {
	ofAgent := k.Worker != nil && k.Worker.Parent != ""
	return m.cfgLive.RecordsPolicy(k.Name, k.Role) && !ofAgent && !k.RulesLost
}

// endRecording enforces all rules again if the configuration has that. It never begins to record: that
// needs a new view.
func (m *Manager) endRecording(a *Agent) error {
	m.mu.Lock()
	ends := a.Kept.Recording && !m.recordsPolicy(a.Kept)
	if ends {
		a.Kept.Recording = false
	}
	m.mu.Unlock()
	if !ends {
		return nil
	}
	m.Log.Info("rules enforced again", "agent", a.Name())
	return m.save(a.WS)
}

// Recorded describes an agent for the record of what it uses.
type Recorded struct {
	store.Agent
	Workspace string
	Type      config.BaseType
	// Egress is where its connections may go.
	Egress []string
	// Up: it has a shim now.
	Up bool
}

// RecordOf describes an agent; ok is false if there is none of that name.
func (m *Manager) RecordOf(name string) (r Recorded, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.agents[name]
	if a == nil {
		return r, false
	}
	r = Recorded{Agent: a.Kept, Workspace: a.WS.Name, Type: a.Type, Up: a.up}
	if reach, err := m.cfgLive.Reach(a.Kept.Role, a.Type, ownReach(a.Kept)); err == nil { // else it reaches nothing
		r.Egress = reach.Policy.Entries()
	}
	return r, true
}
