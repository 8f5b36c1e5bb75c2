package agent

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/history/task"
	"polis/daemon/store"
)

// maxDiffStat bounds the diff stat of a worker, in bytes.
const maxDiffStat = 64 << 10

// Workers returns the workers of an agent, or with "" all of a workspace ("" = all), oldest first.
// Those that were removed come without their agent.
func (m *Manager) Workers(ctx context.Context, parent, workspace string) ([]api.Worker, error) {
	if workspace != "" {
		ws, err := m.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = ws.Name
	}
	out := []api.Worker{}
	for _, a := range m.workers(parent, workspace) {
		out = append(out, m.workerView(ctx, a))
	}
	slices.SortStableFunc(out, func(a, b api.Worker) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, nil
}

// workers returns the agents of workers. One that was removed is a copy with what is kept of it.
func (m *Manager) workers(parent, workspace string) []*Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*Agent
	for _, a := range m.agents {
		if m.worksFor(a.Kept, parent) && (workspace == "" || a.WS.Name == workspace) {
			out = append(out, a)
		}
	}
	for _, ws := range m.workspaces {
		for _, r := range ws.Removed {
			if m.worksFor(r.Agent, parent) && (workspace == "" || ws.Name == workspace) && m.agents[r.Agent.Name] == nil {
				out = append(out, &Agent{WS: ws, Kept: r.Agent})
			}
		}
	}
	return out
}

// worksFor reports whether an agent is a worker of parent; of any agent or person with "". m.mu is held.
func (m *Manager) worksFor(k store.Agent, parent string) bool {
	if k.Worker == nil || parent == "" {
		return k.Worker != nil
	}
	p := m.agents[parent]
	return p != nil && k.Worker.Parent == parent && k.Worker.Session == p.Kept.Session
}

// worker returns the worker with this ID, if it works for parent.
func (m *Manager) worker(parent, id string) (*Agent, error) {
	var newest *Agent
	for _, a := range m.workers(parent, "") {
		if a.Kept.Name == id && (newest == nil || a.Kept.CreatedAt.After(newest.Kept.CreatedAt)) {
			newest = a
		}
	}
	if newest == nil {
		return nil, api.Errorf(api.CodeAgentNotFound, "there is no worker %q", api.Shorten(id, 64)).WithHint("polisctl workers list shows them")
	}
	return newest, nil
}

// Worker returns one worker with its result so far. With wait it returns when the result is final and its
// program has exited, or ctx ends.
func (m *Manager) Worker(ctx context.Context, parent, id string, wait bool) (api.Worker, error) {
	waited := false // for the exit of its program, as Task does
	for {
		a, err := m.worker(parent, id)
		if err != nil {
			return api.Worker{}, err
		}
		w := m.workerView(ctx, a)
		if wait && w.State != api.WorkerEnded && w.Task != nil && !w.Removed {
			if _, err := m.Task(ctx, w.Task.ID, true); err != nil && api.CodeOf(err) != api.CodeAgentNotFound {
				return w, err
			}
			if ctx.Err() == nil {
				waited = true
				continue
			}
			w = m.workerView(context.WithoutCancel(ctx), a)
		}
		if wait && !waited && w.Task != nil && m.awaitExit(ctx, a, w.Task.ID) {
			w = m.workerView(context.WithoutCancel(ctx), a)
		}
		w.DiffStat = m.workerDiff(context.WithoutCancel(ctx), a, w)
		return w, nil
	}
}

// workerView describes a worker.
func (m *Manager) workerView(ctx context.Context, a *Agent) api.Worker {
	m.mu.Lock()
	k, there := a.Kept, m.agents[a.Kept.Name] == a
	m.mu.Unlock()
	w := api.Worker{ID: k.Name, State: api.WorkerWorking, Workspace: a.WS.Name, Branch: k.Branch, Parent: k.Worker.Parent, BaseType: k.BaseType, Role: k.Role,
		CreatedAt: k.CreatedAt, Removed: !there, MergeStatus: k.MergeStatus, MergeCommitSHA: k.MergeCommitSHA}
	tasks, err := m.workerTasks(a, there)
	if err != nil {
		m.Log.Warn("task of a worker not read", "agent", k.Name, "err", err)
	}
	if len(tasks) > 0 {
		t := tasks[len(tasks)-1]
		w.Task, w.Summary, w.OK = &t, t.Message, task.Well(t)
		if t.Report != nil && w.Summary == "" {
			w.Summary = t.Report.Answer
		}
		if t.State == api.TaskEnded && !t.Final {
			w.State = api.WorkerLanding
		}
		if t.Final {
			w.State = api.WorkerEnded
		}
	}
	if !there || len(tasks) == 0 && k.Status != api.StatusCreating && k.Status != api.StatusIdle {
		w.State = api.WorkerEnded
	}
	if there && w.State == api.WorkerWorking {
		w.Waiting, w.Update = m.progress(ctx, a)
	}
	return w
}

// workerTasks returns the last task of a worker.
func (m *Manager) workerTasks(a *Agent, there bool) ([]api.Task, error) {
	records := &task.Store{Dir: a.WS.Root.Logs(a.Kept.Name), Agent: a.Kept.Name, Now: m.Now}
	if there {
		records = m.records(a)
	}
	return records.List(1, func(t api.Task) bool { return t.Via == "" })
}

// progress returns what a worker waits for, and what its program said last.
func (m *Manager) progress(ctx context.Context, a *Agent) (*api.Waiting, *api.StatusUpdate) {
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if !up {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, afterTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return nil, nil
	}
	return st.Waiting, st.Update
}

// workerDiff returns how much a worker has committed; empty if that is not known.
func (m *Manager) workerDiff(ctx context.Context, a *Agent, w api.Worker) string {
	if w.Task == nil || w.Task.Commits == 0 || w.Task.Base == "" || w.Task.Head == "" || w.Removed {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	var buf bytes.Buffer
	if err := a.WS.Repo.DiffCommits(ctx, a, w.Task.Base, w.Task.Head, api.DiffRequest{Stat: true}, &limited{&buf, maxDiffStat}); err != nil {
		m.Log.Warn("changes of a worker not measured", "agent", a.Name(), "err", err)
	}
	return strings.TrimRight(strings.ToValidUTF8(buf.String(), "?"), "\n")
}

// limited passes the first bytes on and drops the others.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	if _, err := l.to.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CancelWorker ends a worker's task.
func (m *Manager) CancelWorker(ctx context.Context, parent, id string) (api.Worker, error) {
	a, err := m.worker(parent, id)
	if err != nil {
		return api.Worker{}, err
	}
	w := m.workerView(ctx, a)
	if w.Task == nil || w.Removed || w.Task.State == api.TaskEnded {
		return w, api.Errorf(api.CodeBadState, "worker %s works on no task", id).WithHint("polisctl workers result %s shows what it did", id)
	}
	if _, err := m.CancelTask(ctx, w.Task.ID); err != nil {
		return w, err
	}
	return m.Worker(ctx, parent, id, false)
}

// CleanupWorkers removes the workers whose result is final and that have no uncommitted files, with
// force also those. Their branches and results stay, and their work is saved in the trash first.
func (m *Manager) CleanupWorkers(ctx context.Context, parent string, req api.CleanupRequest) (api.CleanupResponse, error) {
	out := api.CleanupResponse{Removed: []api.RemoveResponse{}}
	all, err := m.Workers(ctx, parent, req.Workspace)
	if err != nil {
		return out, err
	}
	for _, w := range all {
		if w.Removed || w.State != api.WorkerEnded {
			continue
		}
		r, err := m.removeWorker(ctx, w.ID, req.Force)
		switch {
		case err == nil:
			out.Removed = append(out.Removed, r)
		case api.CodeOf(err) != api.CodeAgentNotFound: // the patrol was faster
			out.Kept = append(out.Kept, api.WorkerKept{ID: w.ID, Error: api.AsError(err)})
		}
	}
	return out, nil
}

func (m *Manager) removeWorker(ctx context.Context, name string, force bool) (api.RemoveResponse, error) {
	a, err := m.findFor(ctx, name, verbForce)
	if err != nil {
		return api.RemoveResponse{}, err
	}
	defer a.op.Unlock()
	if err := m.uncommitted(ctx, a); err != nil && !force {
		return api.RemoveResponse{}, err
	}
	return m.remove(ctx, a, store.Removal{})
}

// uncommitted refuses an agent with files that are in no commit. Its commits stay on its branch.
func (m *Manager) uncommitted(ctx context.Context, a *Agent) error {
	if a.Kept.Branch == "agent/"+a.Name() || a.Kept.Restoring != nil {
		return m.unsaved(ctx, a) // the branch is removed with it
	}
	st, err := a.WS.Repo.Status(ctx, a)
	if err == nil && st.Dirty == 0 {
		return nil
	}
	if err != nil {
		return api.Errorf(api.CodeUnsavedWork, "unsaved work of worker %s not determined: %w", a.Name(), err).WithHint("polisctl workers cleanup --force saves it in the trash")
	}
	return api.Errorf(api.CodeUnsavedWork, "worker %s has %s in no commit", a.Name(), api.Count(st.Dirty, "changed file")).With("paths", st.Paths).
		WithHint("polisctl workers cleanup --force saves them in the trash; polisctl agents commit %s commits them", a.Name())
}
