package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/task"
)

// records returns the store of an agent's tasks.
func (m *Manager) records(a *Agent) *task.Store {
	dir := a.WS.Root.Logs(a.Name())
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.tasks[dir]
	if s == nil {
		s = &task.Store{Dir: dir, Agent: a.Name(), Now: m.Now}
		m.tasks[dir] = s
	}
	return s
}

// Tasks returns the last tasks of an agent, oldest first.
func (m *Manager) Tasks(name string) ([]api.Task, error) {
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	ts, err := m.records(a).List(task.MaxTasks, nil)
	return m.addWaits(a, ts), err
}

// lastTask returns the brief of an agent's last task, or nil.
func (m *Manager) lastTask(a *Agent) *api.TaskBrief {
	b, err := m.records(a).Last()
	if err != nil {
		m.Log.Warn("last task not read", "agent", a.Name(), "err", err)
	}
	if b != nil && b.Queued > 0 {
		b.Waits = m.firstWait(a)
	}
	return b
}

// lastBegun returns the last task of an agent that began since the agent was added; the zero value if none did.
func (m *Manager) lastBegun(a *Agent) api.Task {
	since := a.Copy().CreatedAt
	list, err := m.records(a).List(1, func(t api.Task) bool { return t.Began != nil && !t.Began.Before(since) })
	if err != nil {
		m.Log.Warn("last task not read", "agent", a.Name(), "err", err)
	}
	if len(list) == 0 {
		return api.Task{}
	}
	return list[0]
}

// changeTask changes a record. If it cannot be written now, the change counts nevertheless and is
// written later.
func (m *Manager) changeTask(a *Agent, id string, change func(*api.Task)) (api.Task, bool) {
	t, err := m.records(a).Update(id, change)
	switch {
	case api.CodeOf(err) == api.CodeStateNotSaved:
		m.Log.Error("record of a task not saved", "agent", a.Name(), "task", id, "err", err)
		m.laterTasks(a.WS)
	case err != nil:
		m.Log.Error("record of a task not read", "agent", a.Name(), "task", id, "err", err)
		return t, false
	}
	return t, true
}

// laterTasks makes records that could not be written be retried with the state.
func (m *Manager) laterTasks(w *Workspace) {
	m.mu.Lock()
	was := w.unsaved
	w.unsaved = true
	m.mu.Unlock()
	if !was && m.ctx.Err() == nil {
		m.wg.Go(func() { m.saveLater(m.ctx, w) })
	}
}

// flushTasks writes the records of a workspace that could not be written before.
func (m *Manager) flushTasks(w *Workspace) error {
	m.mu.Lock()
	var all []*Agent
	for _, a := range m.agents {
		if a.WS == w && m.tasks[w.Root.Logs(a.Name())] != nil {
			all = append(all, a)
		}
	}
	m.mu.Unlock()
	for _, a := range all {
		if err := m.records(a).Flush(); err != nil {
			return err
		}
	}
	return nil
}

// publishTask emits the event of a task that was given, began or ended, or of its branch's
// outcome.
func (m *Manager) publishTask(t api.Task, message string) {
	data := map[string]any{"prompt": api.Shorten(t.Prompt, 200), "id": t.ID, "state": t.State, "outcome": t.Outcome, "result": t.Result}
	if t.NoCheckpoint != "" {
		data["no_checkpoint"] = t.NoCheckpoint
	}
	if t.Via != "" {
		data = map[string]any{"prompt": api.Shorten(t.Prompt, 200), "id": t.ID, "via": t.Via}
	}
	if t.Said != nil {
		data["said"] = *t.Said
	}
	m.Events.Publish(api.Event{Type: api.EventTask, Agent: t.Agent, Message: message, Data: data})
}

// publishLater is publishTask for what happens to a task after its end.
func (m *Manager) publishLater(t api.Task, message string) {
	data := map[string]any{"prompt": api.Shorten(t.Prompt, 200), "id": t.ID, "state": t.State, "outcome": t.Outcome, "result": t.Result, "later": true}
	m.Events.Publish(api.Event{Type: api.EventTask, Agent: t.Agent, Message: message, Data: data})
}

// mendTasks corrects the records after a restart: a task that is recorded as running, and does not
// run, has ended. Then the next one begins.
func (m *Manager) mendTasks(a *Agent) {
	ids, err := m.records(a).In(api.TaskRunning)
	if err != nil {
		m.Log.Error("tasks not read", "agent", a.Name(), "err", err)
		return
	}
	m.mu.Lock()
	now := ""
	if a.Kept.InTask {
		now = a.Kept.Task
	}
	m.mu.Unlock()
	for _, id := range ids {
		if id == now {
			continue
		}
		if _, ok := m.keptEnd(a, id); ok && now == "" {
			m.mu.Lock()
			a.Kept.InTask, a.Kept.Task = true, id
			m.mu.Unlock()
			m.loseTask(a, "polisd was stopped", api.InterruptedNew)
			continue
		}
		m.lose(a, id, "polisd ended while it began", api.InterruptedNew)
	}
	m.restarted(a)
	m.next(a, false)
}

// lose ends a task whose end is unknown, at a stage of its interruption.
func (m *Manager) lose(a *Agent, id, why string, at api.TaskInterruption) {
	e := lostEnd(why, at)
	e.At = m.Now().UTC()
	t, ok := m.changeTask(a, id, func(t *api.Task) { task.Finish(t, e) })
	if ok {
		m.publishTask(t, "task "+id+" of agent "+a.Name()+" has ended: "+t.Result+lostText(t))
	}
}

// landTasks records the outcome of a branch in the tasks that queued it, and marks earlier tasks
// whose work the merge contains.
func (m *Manager) landTasks(a *Agent, e api.QueueEntry, out api.QueueOutcome, merged bool) {
	ids := slices.Clone(e.Tasks)
	if merged {
		home, err := m.records(a).List(maxHome, func(t api.Task) bool {
			left := t.Outcome == api.OutcomeConflict || t.Outcome == api.OutcomeCheckFailed || t.Outcome == api.OutcomeNotMerged || len(t.Elsewhere) > 0
			return left && t.Ended != nil && !t.Ended.After(e.AddedAt)
		})
		if err != nil {
			m.Log.Error("tasks not read", "agent", a.Name(), "err", err)
		}
		for _, t := range home {
			if !slices.Contains(ids, t.ID) {
				ids = append(ids, t.ID)
			}
		}
	}
	for _, id := range ids {
		before := ""
		t, ok := m.changeTask(a, id, func(t *api.Task) {
			before = t.Result
			task.Land(t, out, merged)
		})
		if ok && t.Result != before {
			m.publishLater(t, "task "+id+" of agent "+a.Name()+": "+t.Result)
		}
	}
}

// maxHome is the most earlier tasks that one merge marks as merged.
const maxHome = 50

// Dequeued records that an agent's branch was removed from the merge queue.
func (m *Manager) Dequeued(name string) {
	a, err := m.lookup(name)
	if err != nil {
		return
	}
	waiting, err := m.records(a).List(maxHome, func(t api.Task) bool { return t.State == api.TaskEnded && t.Outcome == api.OutcomeWaiting })
	if err != nil {
		m.Log.Error("tasks not read", "agent", name, "err", err)
	}
	for _, t := range waiting {
		m.changeTask(a, t.ID, func(t *api.Task) {
			task.Measure(t, task.Work{Head: t.Head, Commits: t.Commits, Uncommitted: t.Uncommitted, Elsewhere: t.Elsewhere})
		})
	}
}

// LogDir returns the directory of the agent's output log.
func (m *Manager) LogDir(name string) (string, error) {
	a, err := m.lookup(name)
	if err != nil {
		return "", err
	}
	return a.WS.Root.Logs(name), nil
}

// measureTime bounds measuring what a task has changed, afterTime the query of its shim.
const (
	measureTime = 30 * time.Second
	afterTime   = 3 * time.Second
)

// measure returns what a task has done. What cannot be determined is zero; err is why.
func (m *Manager) measure(a *Agent, t api.Task) (out task.Work, err error) {
	out.NoGit = !a.WS.Git
	if t.Began != nil && !task.Well(t) {
		if e := m.blocked(a, *t.Began); e != nil {
			out.Network = e.Message + ": " + e.Hint
		}
	}
	// The shim and git answer at the same time.
	var both sync.WaitGroup
	both.Go(func() { out.Use, out.Refused, out.Did = m.aftermath(a, t) })
	if !a.WS.Git {
		both.Wait()
		return out, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), measureTime)
	defer cancel()
	w, err := a.WS.Repo.Since(ctx, a, t.Base)
	both.Wait()
	if err != nil {
		m.Log.Warn("what a task has left cannot be measured", "agent", a.Name(), "task", t.ID, "err", err)
	}
	out.Head, out.Commits, out.Uncommitted, out.Elsewhere = w.Head, w.Commits, w.Dirty, w.Elsewhere
	return out, err
}

// aftermath returns what the agent's shim recorded about a task: the shim that runs, or the one that
// died after the task's program had exited.
func (m *Manager) aftermath(a *Agent, t api.Task) (*api.TaskUse, []api.WhyEntry, *task.Did) {
	if t.Began == nil {
		return nil, nil, nil
	}
	if use, refused, did := m.liveAftermath(a, t); use != nil {
		return use, refused, did
	}
	x, ok := m.keptExit(a, t.ID)
	if !ok {
		return nil, nil, nil
	}
	return x.Use, x.Refused, didIn(x.Steps)
}

// liveAftermath is aftermath of a shim that runs.
func (m *Manager) liveAftermath(a *Agent, t api.Task) (*api.TaskUse, []api.WhyEntry, *task.Did) {
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if !up {
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), afterTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil || st.Task != t.ID {
		return nil, nil, nil
	}
	why, err := sh.Why(ctx)
	if err != nil {
		m.Log.Warn("refusals of a task not known", "agent", a.Name(), "task", t.ID, "err", err)
	}
	return st.Use, slices.DeleteFunc(why, func(w api.WhyEntry) bool { return w.Time.Before(*t.Began) || w.Probe }), m.didOf(ctx, sh, st)
}
