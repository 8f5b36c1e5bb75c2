package agent

import (
	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// sinceOf notes when the program of an agent was started.
func (m *Manager) sinceOf(a *Agent, st wire.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.programSince = st.MainSince
}

// waitOf returns what a queued task waits for; nil if it begins next.
func (m *Manager) waitOf(a *Agent, t api.Task) *api.TaskWait {
	if t.State != api.TaskQueued {
		return nil
	}
	m.mu.Lock()
	st, in, id, since := a.Kept.Status, a.Kept.InTask, a.Kept.Task, a.programSince
	m.mu.Unlock()
	w := &api.TaskWait{Agent: a.Name()}
	switch held := m.heldBy(a, t); {
	case st == api.StatusRunning && in && id != "":
		w.For, w.Task = api.WaitTask, id
		if now, err := m.records(a).Get(id); err == nil && now.Began != nil {
			w.Since = *now.Began
		}
	case st == api.StatusRunning:
		w.For, w.Since = api.WaitProgram, since
	case held != "":
		w.For, w.Task = api.WaitLost, held
		if of, err := m.records(a).Get(held); err == nil && of.Ended != nil {
			w.Since = *of.Ended
		}
	case st == api.StatusStopped:
		w.For = api.WaitStopped
	case st == api.StatusError:
		w.For = api.WaitError
	default:
		return nil
	}
	return w
}

// addWaits adds what queued tasks wait for.
func (m *Manager) addWaits(a *Agent, ts []api.Task) []api.Task {
	for i := range ts {
		ts[i].Waits = m.waitOf(a, ts[i])
	}
	return ts
}

// firstWait returns what the first of an agent's queued tasks waits for; nil if none waits.
func (m *Manager) firstWait(a *Agent) *api.TaskWait {
	ids, err := m.records(a).In(api.TaskQueued)
	if err != nil || len(ids) == 0 {
		return nil
	}
	t, err := m.records(a).Get(ids[0])
	if err != nil {
		return nil
	}
	return m.waitOf(a, t)
}
