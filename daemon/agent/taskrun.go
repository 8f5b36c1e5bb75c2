package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
)

// maxPrompt is the longest text of a task, in bytes: it becomes one argument of execve(2).
const maxPrompt = 120 << 10

func checkPrompt(prompt string) error {
	if strings.TrimSpace(prompt) == "" || strings.ContainsRune(prompt, 0) || len(prompt) > maxPrompt {
		return api.Errorf(api.CodeBadRequest, "prompt has %d bytes: it must be text of 1 to %d bytes without NUL", len(prompt), maxPrompt)
	}
	return nil
}

// Run gives the agent a task and starts a stopped agent first (property 24). With Queue a task can
// wait until those before it have ended.
func (m *Manager) Run(ctx context.Context, name string, req api.RunRequest) (api.Task, error) {
	if err := errors.Join(checkPrompt(req.Prompt), api.CheckEnv(req.Env)); err != nil {
		return api.Task{}, err
	}
	a, err := m.findAny(ctx, name, verbRun)
	if err != nil {
		return api.Task{}, err
	}
	if !req.Queue || len(req.Env) > 0 { // else it waits in the queue
		if a, err = m.whenIdle(ctx, a); err != nil {
			return api.Task{}, err
		}
	}
	defer a.op.Unlock()
	return m.giveTask(ctx, a, req)
}

// giveTask is Run for a request that was checked; a.op is held.
func (m *Manager) giveTask(ctx context.Context, a *Agent, req api.RunRequest) (api.Task, error) {
	k := a.Copy()
	if req.Commit {
		if err := a.changes("commit"); err != nil {
			return api.Task{}, err
		}
	}
	return m.assign(ctx, a, api.Task{Agent: a.Name(), Prompt: req.Prompt, Command: []string{}, Time: m.Now().UTC(), Model: req.Model, Continue: req.Continue, Commit: req.Commit || m.config().Roles[k.Role].AutoCommit && !k.ReadOnly}, req)
}

// assign begins a task, or keeps it until its turn. Of how, it reads Queue, Unasked and Env. a.op is held.
func (m *Manager) assign(ctx context.Context, a *Agent, t api.Task, how api.RunRequest) (api.Task, error) {
	waiting, err := m.records(a).In(api.TaskQueued)
	if err != nil {
		return t, err
	}
	if a.status(m) == api.StatusError {
		if err := m.recoverFor(ctx, a); err != nil {
			return t, err
		}
	}
	st := a.status(m)
	if how.Queue && (st == api.StatusRunning || len(waiting) > 0 || how.Unasked && len(m.holding(a)) > 0) {
		if len(how.Env) > 0 {
			// They would be stored with the task, whose record every user can read.
			return t, api.Errorf(api.CodeBadState, "agent %s is at work: a task that waits cannot have variables of its own", a.Name()).
				WithHint("polisctl agents set %s --env NAME gives them to the agent, or give the task when it is idle", a.Name())
		}
		return m.queueTask(a, t, len(waiting))
	}
	if err := permit(a.Name(), st, verbRun); err != nil {
		return api.Task{}, err
	}
	return m.begin(ctx, a, t, how.Env)
}

// queueTask keeps a task until its turn. a.op is held.
func (m *Manager) queueTask(a *Agent, t api.Task, waiting int) (api.Task, error) {
	if waiting >= task.MaxQueued {
		return t, api.Errorf(api.CodeQuota, "agent %s has %d tasks that wait: at most %d", a.Name(), waiting, task.MaxQueued).
			WithHint("polisctl tasks %s lists them, polisctl tasks cancel ID drops one", a.Name())
	}
	if _, _, err := m.taskCommand(a, t, false); err != nil {
		return t, err
	}
	t.State = api.TaskQueued
	t, err := m.records(a).Create(t)
	if err != nil {
		return t, err
	}
	m.publishTask(t, "agent "+a.Name()+" got a task, which waits for its turn")
	m.next(a, true)
	t.Waits = m.waitOf(a, t)
	return t, nil
}

// taskCommand returns the command line that works on a task, and the format of what it prints
// ("" is text). With stream that is what its base type says.
func (m *Manager) taskCommand(a *Agent, t api.Task, stream bool) (cmd []string, format string, err error) {
	if tools := m.config().Roles[a.Kept.Role].Tools; len(a.Kept.Command) == 0 && a.Type.ByACP(!tools.Empty()) {
		return m.acpCommand(a, t)
	}
	typ, err := a.Type.With(a.Kept.Command, m.modelOf(a, t), t.Continue)
	if err != nil {
		return nil, "", err
	}
	if stream {
		if with, ok := typ.Streaming(a.Kept.Command); ok {
			typ, format = with, with.Stream.Format
		}
	}
	cmd = typ.PromptCommand(a.Kept.Command, t.Prompt)
	if len(cmd) == 0 {
		return nil, "", api.Errorf(api.CodeBadState, "agent %s has no command to give a prompt to", a.Name()).
			WithHint("add it with a base type that has one, or with -- CMD")
	}
	return cmd, format, nil
}

// acpCommand is taskCommand for a program that is driven by ACP.
func (m *Manager) acpCommand(a *Agent, t api.Task) (cmd []string, format string, err error) {
	if t.Continue {
		return nil, "", api.Errorf(api.CodeBadState, "agent %s works by ACP, and does not continue with its last session", a.Name()).WithHint("leave --continue out")
	}
	cmd = []string{wire.AdapterPath, "acp", "--prompt", t.Prompt}
	if model := m.modelOf(a, t); model != "" {
		cmd = append(cmd, "--model", model)
	}
	return slices.Concat(cmd, []string{"--"}, a.Type.ACP), "acp", nil
}

// begin starts a task, which can have waited. env is for this task only. a.op is held.
func (m *Manager) begin(ctx context.Context, a *Agent, t api.Task, env map[string]string) (api.Task, error) {
	m.renewType(ctx, a)
	if _, _, err := m.taskCommand(a, t, false); err != nil {
		return t, err
	}
	// Git and the disk are most of the time before a task: what does not depend on the saved state
	// is read while it is written.
	m.mu.Lock()
	ready := a.up && !a.foreign && !a.Kept.InTask
	m.mu.Unlock()
	var saving sync.WaitGroup
	var unsaved error
	if ready {
		saving.Go(func() { unsaved = m.writable(a) })
	} else if err := m.prepare(ctx, a); err != nil {
		return t, err
	}
	st, output := m.outputEnd(ctx, a)
	base := ""
	if a.WS.Git {
		if ready {
			m.renewProject(ctx, a)
		}
		if base = m.bringForward(ctx, a); base == "" {
			var err error
			if base, err = a.WS.Repo.Head(ctx, a); err != nil {
				m.Log.Warn("first commit of a task not known", "agent", a.Name(), "err", err)
			}
		}
	}
	m.settleIndex(ctx, a)
	saving.Wait()
	if unsaved != nil {
		return t, unsaved
	}
	cmd, format, err := m.taskCommand(a, t, output != nil && knowsSteps(*st))
	if err != nil {
		return t, err
	}
	now := m.Now().UTC()
	note := func(t *api.Task) {
		task.Begin(t, now, cmd, base)
		t.Model = m.modelOf(a, *t)
		t.Output, t.Stream = output, format
	}
	if t.ID == "" {
		note(&t)
		t, err = m.records(a).Create(t)
	} else {
		t, err = m.records(a).Update(t.ID, note)
	}
	if err != nil {
		return t, err
	}
	m.crash("task:noted")
	m.passLost(a)
	t = m.beforeTask(ctx, a, t)
	m.mu.Lock()
	a.Kept.InTask, a.Kept.Task = true, t.ID
	m.mu.Unlock()
	banner := fmt.Sprintf("--- %s: %s\n", now.Format(time.RFC3339), api.Shorten(t.Prompt, 200))
	got := "agent " + a.Name() + " got a task"
	if t.NoCheckpoint != "" {
		got += ", and there is no checkpoint before it: " + t.NoCheckpoint
	}
	m.publishTask(t, got)
	if err := m.runMain(ctx, a, st, wire.StartRequest{Command: cmd, Banner: banner, NoInput: a.Type.NoInput && len(a.Type.Run) > 0, Task: t.ID, Stream: format, Env: envWords(env)}); err != nil {
		m.endTask(a, lostEnd("its command was not started: "+api.AsError(err).Message, notStarted(t)))
		return t, err
	}
	return t, nil
}

// settleIndexTime bounds the time that a task waits for settleIndex.
const settleIndexTime = 10 * time.Second

// settleIndex spares people questions about files that they have approved: without it, git of the agent may read them in each
// command of the next task.
func (m *Manager) settleIndex(ctx context.Context, a *Agent) {
	if !a.WS.Git || a.Copy().ReadOnly {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleIndexTime)
	defer cancel()
	if err := a.WS.Repo.Settle(ctx, a); err != nil {
		m.Log.Warn("index not settled before a task", "agent", a.Name(), "err", err)
	}
}

// prepare starts an agent that is down for a task, and ends the task that it was in.
func (m *Manager) prepare(ctx context.Context, a *Agent) error {
	if err := m.writable(a); err != nil {
		return err
	}
	m.loseTask(a, "another task began", api.InterruptedPassed) // normally there is none
	return m.raise(ctx, a, false)
}

// outputEnd returns the state of the agent's shim, nil if it is not known, and the position of the
// agent's next output, nil if its shim does not report it.
func (m *Manager) outputEnd(ctx context.Context, a *Agent) (*wire.Status, *api.OutputRange) {
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	switch {
	case err != nil:
		return nil, nil
	case st.Version < wire.TaskVersion:
		return &st, nil
	}
	return &st, &api.OutputRange{From: st.LogEnd}
}

// next begins the task that waits longest, if the agent has nothing to do. With wake it starts a
// stopped agent, which was just given that task. It does not wait.
func (m *Manager) next(a *Agent, wake bool) {
	ids, err := m.records(a).In(api.TaskQueued)
	if err != nil || len(ids) == 0 || m.halted(m.ctx) {
		return
	}
	m.wg.Go(func() {
		if a.op.Acquire(m.ctx) != nil {
			return
		}
		defer a.op.Unlock()
		for m.ctx.Err() == nil && m.beginNext(a, wake) {
		}
	})
}

// beginNext begins the first waiting task. It returns true if that task could not be started and
// has ended, so that the next can be tried. a.op is held.
func (m *Manager) beginNext(a *Agent, wake bool) bool {
	m.mu.Lock()
	there, st := m.agents[a.Name()] == a && a.Kept.Removal == nil, a.Kept.Status
	m.mu.Unlock()
	ids, err := m.records(a).In(api.TaskQueued)
	if err != nil || len(ids) == 0 || !there || m.halted(m.ctx) || st != api.StatusIdle && (st != api.StatusStopped || !wake) {
		return false
	}
	t, err := m.records(a).Get(ids[0])
	if err == nil && !m.mayBegin(a, t) {
		return false
	}
	if err == nil {
		_, err = m.begin(m.ctx, a, t, nil)
	}
	if err == nil || m.ctx.Err() != nil {
		return false
	}
	m.Log.Warn("waiting task not started", "agent", a.Name(), "task", ids[0], "err", err)
	m.lose(a, ids[0], "it could not be started: "+api.AsError(err).Message, notStarted(t))
	return true
}
