package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
)

// maxPrompt bounds a task's text, in bytes: it becomes one argument of execve.
const maxPrompt = 120 << 10

// Start brings a stopped agent up and runs its command, if it has one; an
// agent that is Running is left alone. With force the machine need not have room
// for it.
func (m *Manager) Start(ctx context.Context, name string, force bool) (api.Agent, error) {
	a, err := m.findFor(ctx, name, verbStart)
	if err != nil {
		return api.Agent{}, err
	}
	defer a.op.Unlock()
	if already(a.status(m), verbStart) {
		return m.live(ctx, a), nil
	}
	if err := m.writable(a); err != nil {
		return api.Agent{}, err
	}
	cmd := a.Type.StartCommand(a.Kept.Command)
	m.inTask(a, false)
	if len(cmd) == 0 {
		if err := m.ensureUp(ctx, a, force); err != nil {
			return api.Agent{}, err
		}
		return m.live(ctx, a), nil
	}
	if err := m.raise(ctx, a, force); err != nil {
		return api.Agent{}, err
	}
	if err := m.runMain(ctx, a, wire.StartRequest{Command: cmd, TTY: true}); err != nil {
		return api.Agent{}, err
	}
	return m.live(ctx, a), nil
}

func (a *Agent) status(m *Manager) api.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.Kept.Status
}

// ensureUp brings the agent up unless it is: then it is Idle, or what it was.
// a.op is held.
func (m *Manager) ensureUp(ctx context.Context, a *Agent, force bool) error {
	if err := m.raise(ctx, a, force); err != nil {
		return err
	}
	if s := a.status(m); s == api.StatusStopped || s == api.StatusError {
		m.settle(a, "")
	}
	return nil
}

// raise brings the shim up unless it is, for a command that is started next
// and makes the agent Running.
func (m *Manager) raise(ctx context.Context, a *Agent, force bool) error {
	m.mu.Lock()
	up, foreign := a.up, a.foreign
	m.mu.Unlock()
	if foreign {
		if err := m.takeDown(ctx, a); err != nil {
			return err
		}
		up = false
	}
	if up {
		return nil
	}
	leave, err := m.admit(a, force)
	if err != nil {
		return err
	}
	defer leave()
	if err := m.bringUp(ctx, a); err != nil {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		err = errors.Join(err, m.takeDown(uctx, a))
		m.setStatus(a, api.StatusError, api.AsError(err).Message)
		return err
	}
	return nil
}

// settle leaves an agent that is up Idle: what was to run has ended, or there
// is nothing to run. The way to Idle is by Running, as the diagram has it.
func (m *Manager) settle(a *Agent, reason string) {
	if !May(a.status(m), api.StatusIdle) {
		m.setStatus(a, api.StatusRunning, "")
	}
	m.setStatus(a, api.StatusIdle, reason)
}

func (m *Manager) runMain(ctx context.Context, a *Agent, req wire.StartRequest) error {
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	if req.NoInput {
		st, err := sh.Status(ctx)
		if err != nil {
			return err
		}
		v, err := wire.Agree(st)
		req.NoInput = err == nil && v >= wire.NoInputVersion
	}
	if err := sh.Start(ctx, req); err != nil {
		m.settle(a, "its command was not started: "+api.AsError(err).Message)
		return err
	}
	m.setStatus(a, api.StatusRunning, "")
	// A command that ended before its state was noted has already been heard of.
	if st, err := sh.Status(ctx); err == nil && !st.Running {
		m.ended(a, st)
	}
	return nil
}

// ended notes that the main command is over.
func (m *Manager) ended(a *Agent, st wire.Status) {
	m.mu.Lock()
	cur, reason := a.Kept.Status, a.Kept.StatusReason
	m.mu.Unlock()
	// A daemon that died between starting a command and noting it finds the
	// agent Idle, and its command's end among the events.
	if cur != api.StatusRunning && (cur != api.StatusIdle || reason != "") {
		return
	}
	// Before the state: who dies in between hears of the end once more.
	m.taskEnded(a, st.OOM == "" && st.ExitCode != nil && *st.ExitCode == 0)
	switch {
	case st.OOM != "":
		m.setStatus(a, api.StatusError, string(api.CodeOOMKilled)+": "+st.OOM)
	case st.ExitCode != nil && *st.ExitCode != 0:
		m.setStatus(a, api.StatusIdle, fmt.Sprintf("the command ended with exit code %d", *st.ExitCode))
	default:
		m.setStatus(a, api.StatusIdle, "")
	}
}

// Stop ends the agent's command and sandbox; worktree, branch and settings stay.
func (m *Manager) Stop(ctx context.Context, name string) (api.Agent, error) {
	a, err := m.findFor(ctx, name, verbStop)
	if err != nil {
		return api.Agent{}, err
	}
	defer a.op.Unlock()
	if err := m.stop(ctx, a); err != nil {
		return api.Agent{}, err
	}
	return m.live(ctx, a), nil
}

func (m *Manager) stop(ctx context.Context, a *Agent) error {
	// Once begun, stopping goes to its end even when the asker leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if a.status(m) == api.StatusRunning {
		m.taskEnded(a, false)
	}
	err := m.takeDown(ctx, a)
	if err != nil {
		m.setStatus(a, api.StatusError, err.Error())
		return api.Errorf(api.CodeReapFailed, "stop agent %s: %w", a.Name(), err)
	}
	m.setStatus(a, api.StatusStopped, "")
	return nil
}

// Run gives the agent a task; a stopped agent is started first (property 24).
func (m *Manager) Run(ctx context.Context, name, prompt string) (api.Task, error) {
	if strings.TrimSpace(prompt) == "" || strings.ContainsRune(prompt, 0) || len(prompt) > maxPrompt {
		return api.Task{}, api.Errorf(api.CodeBadRequest, "prompt has %d bytes: it must be text of 1 to %d bytes without NUL", len(prompt), maxPrompt)
	}
	a, err := m.findFor(ctx, name, verbRun)
	if err != nil {
		return api.Task{}, err
	}
	defer a.op.Unlock()
	cmd := a.Type.PromptCommand(a.Kept.Command, prompt)
	if len(cmd) == 0 {
		return api.Task{}, api.Errorf(api.CodeBadState, "agent %s has no command to give a prompt to", name).
			WithHint("add it with a base type that has one, or with -- CMD")
	}
	if err := m.writable(a); err != nil {
		return api.Task{}, err
	}
	if err := m.raise(ctx, a, false); err != nil {
		return api.Task{}, err
	}
	task := api.Task{Agent: name, Prompt: prompt, Command: cmd, Time: m.Now().UTC()}
	if err := m.logTask(a, task); err != nil {
		return api.Task{}, err
	}
	banner := fmt.Sprintf("--- %s: %s\n", task.Time.Format(time.RFC3339), api.Shorten(prompt, 200))
	m.inTask(a, true)
	if err := m.runMain(ctx, a, wire.StartRequest{Command: cmd, Banner: banner, NoInput: a.Type.NoInput && len(a.Type.Run) > 0}); err != nil {
		m.inTask(a, false)
		return api.Task{}, err
	}
	m.Events.Publish(api.Event{Type: api.EventTask, Agent: name, Message: "agent " + name + " got a task", Data: map[string]any{"prompt": api.Shorten(prompt, 200)}})
	return task, nil
}
