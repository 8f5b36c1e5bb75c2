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

// Start brings a stopped agent up and runs its command, if it has one.
func (m *Manager) Start(ctx context.Context, name string) (api.Agent, error) {
	a, err := m.find(ctx, name)
	if err != nil {
		return api.Agent{}, err
	}
	defer a.op.Unlock()
	if a.status(m) == api.StatusRunning {
		return m.live(ctx, a), nil
	}
	if err := m.writable(a); err != nil {
		return api.Agent{}, err
	}
	if err := m.ensureUp(ctx, a); err != nil {
		return api.Agent{}, err
	}
	cmd := a.Kept.Command
	if len(cmd) == 0 {
		cmd = a.Type.Interactive
	}
	if len(cmd) > 0 {
		if err := m.runMain(ctx, a, wire.StartRequest{Command: cmd, TTY: true}); err != nil {
			return api.Agent{}, err
		}
	}
	return m.live(ctx, a), nil
}

func (a *Agent) status(m *Manager) api.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.Kept.Status
}

// ensureUp brings the shim up unless it is. a.op is held.
func (m *Manager) ensureUp(ctx context.Context, a *Agent) error {
	m.mu.Lock()
	up, st, foreign := a.up, a.Kept.Status, a.foreign
	m.mu.Unlock()
	if foreign {
		if err := m.takeDown(ctx, a); err != nil {
			return err
		}
		up = false
	}
	if up {
		if st == api.StatusStopped || st == api.StatusError {
			m.setStatus(a, api.StatusIdle, "")
		}
		return nil
	}
	if err := m.bringUp(ctx, a); err != nil {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		err = errors.Join(err, m.takeDown(uctx, a))
		m.setStatus(a, api.StatusError, api.AsError(err).Message)
		return err
	}
	m.setStatus(a, api.StatusIdle, "")
	return nil
}

func (m *Manager) runMain(ctx context.Context, a *Agent, req wire.StartRequest) error {
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	if err := sh.Start(ctx, req); err != nil {
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
	a, err := m.find(ctx, name)
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
	a, err := m.find(ctx, name)
	if err != nil {
		return api.Task{}, err
	}
	defer a.op.Unlock()
	cmd := a.Type.PromptCommand(a.Kept.Command, prompt)
	if len(cmd) == 0 {
		return api.Task{}, api.Errorf(api.CodeBadState, "agent %s has no command to give a prompt to", name).
			WithHint("add it with a base type that has one, or with -- CMD")
	}
	if a.status(m) == api.StatusRunning {
		return api.Task{}, api.Errorf(api.CodeBadState, "agent %s already works on something", name).
			WithHint("polisctl agents watch %s -f shows it; polisctl agents stop %s ends it", name, name)
	}
	if err := m.writable(a); err != nil {
		return api.Task{}, err
	}
	if err := m.ensureUp(ctx, a); err != nil {
		return api.Task{}, err
	}
	task := api.Task{Agent: name, Prompt: prompt, Command: cmd, Time: m.Now().UTC()}
	if err := m.logTask(a, task); err != nil {
		return api.Task{}, err
	}
	banner := fmt.Sprintf("--- %s: %s\n", task.Time.Format(time.RFC3339), api.Shorten(prompt, 200))
	if err := m.runMain(ctx, a, wire.StartRequest{Command: cmd, Banner: banner}); err != nil {
		return api.Task{}, err
	}
	m.Events.Publish(api.Event{Type: api.EventTask, Agent: name, Message: "agent " + name + " got a task", Data: map[string]any{"prompt": api.Shorten(prompt, 200)}})
	return task, nil
}

// Remove ends an agent and takes its worktree away. What is not in the target
// branch is put aside first; without force that is refused instead.
func (m *Manager) Remove(ctx context.Context, name string, force bool) (api.RemoveResponse, error) {
	a, err := m.find(ctx, name)
	if err != nil {
		return api.RemoveResponse{}, err
	}
	defer a.op.Unlock()
	st := a.status(m)
	if st == api.StatusRunning && !force {
		return api.RemoveResponse{}, api.Errorf(api.CodeBadState, "agent %s is Running", name).
			WithHint("polisctl agents stop %s first, or --force", name)
	}
	if a.WS.Git && !force {
		ws, err := a.WS.Repo.Status(ctx, a)
		if err != nil {
			return api.RemoveResponse{}, api.Errorf(api.CodeUnsavedWork, "cannot tell whether agent %s has unsaved work: %w", name, err).
				WithHint("--force removes it after putting everything aside")
		}
		if ws.Dirty > 0 || ws.Unmerged > 0 {
			return api.RemoveResponse{}, api.Errorf(api.CodeUnsavedWork, "agent %s has work that is nowhere else: %d changed files, %d commits not in %s", name, ws.Dirty, ws.Unmerged, a.WS.Target).
				With("paths", ws.Paths).With("dirty", ws.Dirty).With("unmerged", ws.Unmerged).
				WithHint("polisctl merge %s brings the commits home; --force removes the agent and keeps everything under refs/polis/trash/%s", name, name)
		}
	}
	return m.remove(ctx, a, false)
}

// Discard puts the agent's work aside and removes agent, worktree and branch.
func (m *Manager) Discard(ctx context.Context, name string) (api.RemoveResponse, error) {
	a, err := m.find(ctx, name)
	if err != nil {
		return api.RemoveResponse{}, err
	}
	defer a.op.Unlock()
	r, err := m.remove(ctx, a, true)
	if err == nil {
		m.Events.Publish(api.Event{Type: api.EventAgentDiscarded, Agent: name, Message: fmt.Sprintf("the work of agent %s was discarded; it is kept as %s", name, r.Trash), Data: map[string]any{"trash": r.Trash}})
	}
	return r, err
}

func (m *Manager) remove(ctx context.Context, a *Agent, dropBranch bool) (api.RemoveResponse, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*undoTime)
	defer cancel()
	resp := api.RemoveResponse{Name: a.Name()}
	if err := m.writable(a); err != nil {
		return resp, err
	}
	if err := m.stop(ctx, a); err != nil {
		return resp, err
	}
	if a.WS.Git {
		ref, err := a.WS.Repo.Save(ctx, a)
		if err != nil {
			return resp, api.Errorf(api.CodeUnsavedWork, "put the work of agent %s aside: %w", a.Name(), err).
				WithHint("nothing was removed; the worktree is at %s", a.Worktree())
		}
		resp.Trash = ref
	}
	if err := m.dismantle(ctx, a); err != nil {
		m.setStatus(a, api.StatusError, err.Error())
		return resp, err
	}
	// The branch goes when everything on it is in the target or in the trash.
	if a.WS.Git && (dropBranch || a.Kept.Branch == "agent/"+a.Name()) {
		if err := a.WS.Repo.DropBranch(ctx, a, resp.Trash); err != nil {
			m.Log.Warn("delete branch", "agent", a.Name(), "err", err)
		}
	}
	if err := m.forget(a); err != nil {
		return resp, err
	}
	m.Events.Publish(api.Event{Type: api.EventAgentRemoved, Agent: a.Name(), Message: "agent " + a.Name() + " was removed", Data: map[string]any{"trash": resp.Trash}})
	return resp, nil
}

// Why returns the agent's last refusals.
func (m *Manager) Why(ctx context.Context, name string) ([]api.WhyEntry, error) {
	if _, err := m.upShim(name); err != nil {
		return nil, err
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	return sh.Why(ctx)
}

func (m *Manager) upShim(name string) (*Agent, error) {
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !a.up {
		return nil, api.Errorf(api.CodeBadState, "agent %s is %s", name, a.Kept.Status).WithHint("polisctl agents start %s", name)
	}
	return a, nil
}

// Attach says where the agent's own server listens.
func (m *Manager) Attach(name string) (api.Attach, error) {
	if _, err := m.upShim(name); err != nil {
		return api.Attach{}, err
	}
	return api.Attach{Agent: name, Socket: m.Shims.Socket(name)}, nil
}

// Policy returns the agent's rules.
func (m *Manager) Policy(name string) (api.Policy, error) {
	a, err := m.lookup(name)
	if err != nil {
		return api.Policy{}, err
	}
	return a.Kept.Policy, nil
}
