package agent

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
)

// knowsSteps reports whether the shim of a status reads streams and reports steps.
func knowsSteps(st wire.Status) bool {
	v, err := wire.Agree(st)
	return err == nil && v >= wire.StepsVersion
}

// didOf is what the task of a shim's status did; nil if that is not known.
func (m *Manager) didOf(ctx context.Context, sh Shim, st wire.Status) *task.Did {
	if st.Task == "" || !knowsSteps(st) {
		return nil
	}
	did, err := sh.Steps(ctx)
	if err != nil {
		m.Log.Warn("steps of a task not known", "agent", st.Agent, "task", st.Task, "err", err)
		return nil
	}
	if did.Task != st.Task {
		return nil // another one has begun
	}
	return didIn(did)
}

func didIn(s wire.Steps) *task.Did {
	return &task.Did{Steps: s.Steps, Total: s.Total, Report: s.Report, Raw: s.Raw}
}

// addSteps adds to the record of a running task what it has done so far. It is not
// written: the task's end does that.
func (m *Manager) addSteps(ctx context.Context, a *Agent, t *api.Task) {
	m.mu.Lock()
	up := a.up && !a.foreign
	m.mu.Unlock()
	if !up || t.State != api.TaskRunning {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), screenTime) // a wait that has ended is no reason to know less
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil || st.Task != t.ID {
		return
	}
	t.Use = st.Use
	if did := m.didOf(ctx, sh, st); did != nil {
		task.Note(t, *did)
	}
}
