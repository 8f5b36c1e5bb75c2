package agent

import (
	"cmp"
	"context"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
)

// exitOf returns the end of a task whose program has exited.
func (m *Manager) exitOf(st wire.Status) task.End {
	e := task.End{At: m.Now().UTC(), By: api.EndExit, Exit: st.ExitCode}
	if st.ExitedAt != nil {
		e.At = st.ExitedAt.UTC()
	}
	if st.OOM != "" {
		e.Killed = "memory"
	}
	if st.Output != nil {
		e.Output = *st.Output
	}
	return e
}

// doneEvent ends the task of an agent that reports that it is done.
func (m *Manager) doneEvent(ctx context.Context, sh Shim, a *Agent) {
	if st, ok := m.stateOf(ctx, sh, a); ok {
		m.saidDone(a, st)
	}
}

// saidDone ends the task if the agent has reported that it is done.
func (m *Manager) saidDone(a *Agent, st wire.Status) {
	if st.Done == nil || !m.works(a, st.Task) {
		return
	}
	m.endTask(a, doneEnd(*st.Done))
}

// doneEnd is the end of a task that its agent reported.
func doneEnd(d wire.TaskDone) task.End {
	by := api.EndDone
	if d.By == api.EndComplete {
		by = d.By
	}
	return task.End{At: d.At.UTC(), By: by, Failed: d.Failed, Message: d.Message, Cleanup: d.CleanupStatus}
}

// loseTask ends the task of an agent whose shim is gone: as its shim saved it before it died, else as
// lost, at a stage of its interruption. It does nothing if the task has ended.
func (m *Manager) loseTask(a *Agent, why string, at api.TaskInterruption) task.End {
	m.mu.Lock()
	in, id := a.Kept.InTask, a.Kept.Task
	m.mu.Unlock()
	e := lostEnd(why, at)
	if in && id != "" {
		if kept, ok := m.keptEnd(a, id); ok {
			e = kept
		}
	}
	m.endTask(a, e)
	return e
}

// keptEnd is the end of a task that an agent's shim saved. As with a shim that lives, what the agent
// itself reported takes precedence.
func (m *Manager) keptEnd(a *Agent, id string) (task.End, bool) {
	d, ok, err := m.records(a).Done(id)
	if err != nil {
		m.Log.Warn("what the agent reported about its task is not known", "agent", a.Name(), "task", id, "err", err)
	}
	if ok {
		return doneEnd(d), true
	}
	x, ok := m.keptExit(a, id)
	if !ok {
		return task.End{}, false
	}
	e := task.End{At: x.At.UTC(), By: api.EndExit, Exit: &x.Code, Output: x.Output}
	if x.OOM != "" {
		e.Killed = "memory"
	}
	return e, true
}

// keptExit is what an agent's shim saved when the program of a task exited.
func (m *Manager) keptExit(a *Agent, id string) (wire.TaskExit, bool) {
	x, ok, err := m.records(a).Exit(id)
	if err != nil {
		m.Log.Warn("how the program of a task exited is not known", "agent", a.Name(), "task", id, "err", err)
	}
	return x, ok
}

// works reports whether the agent works on the task of a shim's status.
func (m *Manager) works(a *Agent, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.Kept.InTask && (id == "" || a.Kept.Task == "" || a.Kept.Task == id)
}

// knowTask takes over the task that a running shim works on, if the last daemon died before it
// recorded the start.
func (m *Manager) knowTask(a *Agent, st wire.Status) {
	if st.Task == "" {
		return
	}
	t, err := m.records(a).Get(st.Task)
	if err != nil || t.State != api.TaskRunning {
		return
	}
	m.mu.Lock()
	a.Kept.InTask, a.Kept.Task = true, st.Task
	m.mu.Unlock()
}

// lateReport notes what the program of a task reported after the agent had said that it is
// done.
func (m *Manager) lateReport(a *Agent, st wire.Status) {
	if st.Done == nil || st.Task == "" || m.works(a, st.Task) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), afterTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	if did := m.didOf(ctx, sh, st); did != nil {
		m.changeTask(a, st.Task, func(t *api.Task) { task.Note(t, *did) })
	}
}

// endTask ends the task that the agent works on, if any. Every end leads here, and the first one
// counts. For an end that is recorded already it only repeats the later steps, which is how a
// daemon finishes what the last one could not. A branch whose task ended well is put in the merge
// queue; another stays for a user.
func (m *Manager) endTask(a *Agent, e task.End) { m.finishTask(a, e, false)() }

// finishTask is endTask without the event of the end, which publish emits. exited is that the task's
// program has exited.
func (m *Manager) finishTask(a *Agent, e task.End, exited bool) (publish func()) {
	nothing := func() {}
	now := func() (in bool, id string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return a.Kept.InTask, a.Kept.Task
	}
	in, id := now()
	a.ending.Lock()
	defer a.ending.Unlock()
	// Meanwhile it can have ended, and the next one can have begun.
	if still, same := now(); !in || !still || same != id {
		return nothing
	}
	m.markExiting(a, id, exited)
	if e.At.IsZero() {
		e.At = m.Now().UTC()
	}
	// A task of an older polisd has no record: only its end is known.
	t := api.Task{Agent: a.Name(), State: api.TaskRunning}
	task.Finish(&t, e)
	if id != "" {
		if kept, ok := m.changeTask(a, id, func(t *api.Task) { task.Finish(t, e) }); ok {
			t = kept
		}
	}
	m.crash("task:ended")
	if t.Commit && id != "" && task.Well(t) && a.WS.Git {
		m.autoCommit(a, t)
	}
	merge := m.mergesTask(a, t)
	left := true // of a program that is no task, or without a measurement, polisd does not know
	if id != "" {
		w, err := m.measure(a, t)
		left = err != nil || w.Commits > 0 || w.Uncommitted > 0 || len(w.Elsewhere) > 0
		w.Merging = merge
		if kept, ok := m.changeTask(a, id, func(t *api.Task) { task.Measure(t, w) }); ok {
			t = kept
		}
	}
	m.crash("task:measured")
	m.mu.Lock()
	first := a.Kept.InTask && a.Kept.Task == id
	if first {
		a.Kept.InTask, a.Kept.Task = false, ""
		// Without auto_merge the branch waits for a user by configuration. The task's result shows
		// it.
		if !task.Well(t) && a.WS.Git && left {
			a.Kept.MergeStatus = api.MergePending
		}
	}
	m.mu.Unlock()
	if !first {
		return nothing
	}
	if merge {
		m.queueMerge(a, t)
	}
	return func() {
		m.publishTask(t, "task "+cmp.Or(id, "of an older polisd")+" of agent "+a.Name()+" has ended: "+t.Result+lostText(t))
	}
}

// mergesTask reports whether the branch of an ended task is to be merged.
func (m *Manager) mergesTask(a *Agent, t api.Task) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return task.Well(t) && a.WS.Git && a.WS.Queue != nil && !a.Kept.ReadOnly && m.cfgLive.AutoMerge(a.WS.Name, a.Type, a.Kept.AutoMerge)
}

// queueMerge puts the branch of a task in the merge queue, which also saves the state.
func (m *Manager) queueMerge(a *Agent, t api.Task) {
	e := api.QueueEntry{Agent: a.Name(), By: "task", Commit: t.Head, AddedAt: m.Now().UTC()}
	if t.ID != "" {
		e.Tasks = []string{t.ID}
	}
	if _, err := a.WS.Queue.Add(e); err != nil {
		m.Log.Error("merge of a task not queued", "agent", a.Name(), "err", err)
		m.Events.Publish(api.Event{Type: api.EventAgentMergeFailed, Agent: a.Name(), Code: api.CodeOf(err), Message: "the task's branch could not be queued: " + err.Error()})
		if t.ID != "" {
			m.changeTask(a, t.ID, func(t *api.Task) { task.Land(t, api.QueueOutcome{Code: api.CodeOf(err)}, false) })
		}
	}
}
