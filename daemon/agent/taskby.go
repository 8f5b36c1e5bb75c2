package agent

import (
	"context"
	"io"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/task"
)

// taskOf returns an agent and its task by the task's ID. The records of an agent that was removed
// can still be read; such an agent is not registered.
func (m *Manager) taskOf(id string) (*Agent, api.Task, error) {
	name, _, err := task.ParseID(id)
	if err != nil {
		return nil, api.Task{}, err
	}
	a, err := m.lookup(name)
	if err != nil {
		if a = m.removed(name); a == nil {
			return nil, api.Task{}, err
		}
	}
	t, err := m.records(a).Get(id)
	return a, t, err
}

// removed returns a removed agent as it was last, or nil.
func (m *Manager) removed(name string) *Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.workspaces {
		for _, r := range slices.Backward(w.Removed) {
			if r.Agent.Name == name {
				return &Agent{WS: w, Kept: r.Agent}
			}
		}
	}
	return nil
}

// WorkspaceName returns the name of the workspace that is named, or is at a path.
func (m *Manager) WorkspaceName(nameOrPath string) (string, error) {
	w, err := m.Workspace(nameOrPath)
	if err != nil {
		return "", err
	}
	return w.Name, nil
}

// AllTasks returns the newest tasks of a workspace ("" = all), oldest first.
func (m *Manager) AllTasks(workspace string, limit int) ([]api.Task, error) {
	m.mu.Lock()
	var as []*Agent
	for _, a := range m.agents {
		if workspace == "" || a.WS.Name == workspace {
			as = append(as, a)
		}
	}
	m.mu.Unlock()
	out := []api.Task{}
	for _, a := range as {
		ts, err := m.records(a).List(min(limit, task.MaxTasks), nil)
		if err != nil {
			return nil, err
		}
		out = append(out, m.addWaits(a, ts)...)
	}
	slices.SortStableFunc(out, func(a, b api.Task) int { return a.Time.Compare(b.Time) })
	return out[max(0, len(out)-limit):], nil
}

// Task returns one task. With wait it returns when the result is final and its program has exited, so that
// the next task can begin, or ctx ends.
func (m *Manager) Task(ctx context.Context, id string, wait bool) (api.Task, error) {
	for {
		a, err := m.taskAgent(id)
		if err != nil {
			return api.Task{}, err
		}
		changed := m.records(a).Changed() // before the read, so that no change in between is missed
		t, err := m.records(a).Get(id)
		if err != nil || !wait || t.Via != "" || t.Final {
			if wait && err == nil && m.awaitExit(ctx, a, id) {
				t, err = m.records(a).Get(id) // what its program reported last
			}
			m.addSteps(ctx, a, &t)
			t.Waits = m.waitOf(a, t)
			return t, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			m.addSteps(ctx, a, &t)
			t.Waits = m.waitOf(a, t)
			return t, nil
		}
	}
}

func (m *Manager) taskAgent(id string) (*Agent, error) {
	a, _, err := m.taskOf(id)
	return a, err
}

// DiffTask writes what a task committed.
func (m *Manager) DiffTask(ctx context.Context, id string, opt api.DiffRequest, to io.Writer) error {
	a, t, err := m.taskOf(id)
	if err != nil {
		return err
	}
	if err := a.WS.NeedsGit("there is nothing to compare"); err != nil {
		return err
	}
	head := t.Head
	if t.State == api.TaskRunning {
		if head, err = a.WS.Repo.Head(ctx, a); err != nil {
			return err
		}
	}
	return a.WS.Repo.DiffCommits(ctx, a, t.Base, head, opt, to)
}

// cancelGrace is how long the program of a cancelled task may take to exit after SIGTERM.
const cancelGrace = 10 * time.Second

// CancelTask ends a running task, drops a waiting one, or dismisses a lost one. The agent stays up.
func (m *Manager) CancelTask(ctx context.Context, id string) (api.Task, error) {
	a, err := m.taskAgent(id)
	if err != nil {
		return api.Task{}, err
	}
	if a, err = m.find(ctx, a.Name()); err != nil {
		return api.Task{}, err
	}
	defer a.op.Unlock()
	t, err := m.records(a).Get(id)
	if err != nil {
		return t, err
	}
	switch {
	case t.State == api.TaskQueued:
		t, err := m.records(a).Update(id, func(t *api.Task) { task.Finish(t, task.End{At: m.Now().UTC(), By: api.EndCancel}) })
		if err == nil {
			m.publishTask(t, "task "+id+" of agent "+a.Name()+" was cancelled before it began")
		}
		return t, err
	case t.Interrupted != "":
		return m.dismiss(a, id)
	case t.State != api.TaskRunning || !m.works(a, id):
		return t, api.Errorf(api.CodeBadState, "task %s has ended: %s", id, t.Result).WithHint("polisctl tasks retry %s does it again", id)
	}
	m.endTask(a, task.End{By: api.EndCancel})
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	if err := sh.StopMain(ctx, cancelGrace); err != nil {
		return t, err
	}
	m.awaitExit(ctx, a, id)
	return m.records(a).Get(id)
}

// RetryTask gives a task to its agent again, after the tasks that wait; a lost one before them.
func (m *Manager) RetryTask(ctx context.Context, id string) (api.Task, error) {
	return m.retryTask(ctx, id, func(*Agent) error { return nil })
}

// retryTask is RetryTask unless refuse, which is called with a.op held, returns an error.
func (m *Manager) retryTask(ctx context.Context, id string, refuse func(*Agent) error) (api.Task, error) {
	a, old, err := m.taskOf(id)
	if err != nil {
		return api.Task{}, err
	}
	if old.Via != "" || old.State != api.TaskEnded {
		return old, api.Errorf(api.CodeBadState, "task %s cannot be done again: only one that has ended", id).WithHint("polisctl tasks %s lists them", a.Name())
	}
	if a, err = m.findAny(ctx, a.Name(), verbRun); err != nil {
		return api.Task{}, err
	}
	defer a.op.Unlock()
	if err := refuse(a); err != nil {
		return api.Task{}, err
	}
	if now, err := m.records(a).Get(id); err == nil && now.Interrupted == "" && old.Interrupted != "" {
		return old, api.Errorf(api.CodeBadState, "lost task %s was retried or dismissed meanwhile", id).WithHint("polisctl tasks %s lists them", a.Name())
	}
	t, err := m.assign(ctx, a, retryOf(old, m.Now().UTC()), api.RunRequest{Queue: true})
	if err == nil {
		m.decided(a, id, "it is retried as "+t.ID)
		t.Waits = m.waitOf(a, t)
	}
	return t, err
}

// retryOf is the task that does another one again.
func retryOf(old api.Task, now time.Time) api.Task {
	return api.Task{Prompt: old.Prompt, Command: []string{}, Time: now, RetryOf: old.ID, Model: old.Model, Continue: old.Continue, Commit: old.Commit, Ahead: old.Interrupted != ""}
}
