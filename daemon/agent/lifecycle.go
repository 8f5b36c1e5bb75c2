package agent

import (
	"context"
	"errors"
	"fmt"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
)

// Start starts a stopped agent and runs its command, if it has one. It does nothing for a Running
// agent. With force the capacity of the machine is not checked.
func (m *Manager) Start(ctx context.Context, name string, force bool) (api.Agent, error) {
	a, err := m.findFor(ctx, name, verbStart)
	if err == nil { // for an agent that is Running for a moment only, a start would do nothing
		a, err = m.whenIdle(ctx, a)
	}
	if err != nil {
		return api.Agent{}, err
	}
	defer a.op.Unlock()
	if err := m.start(ctx, a, force); err != nil {
		return api.Agent{}, err
	}
	return m.live(ctx, a), nil
}

// start does the work of Start. a.op is held.
func (m *Manager) start(ctx context.Context, a *Agent, force bool) error {
	if already(a.status(m), verbStart) {
		return nil
	}
	if err := m.writable(a); err != nil {
		return err
	}
	m.renewType(ctx, a)
	cmd := a.Type.StartWith(a.Kept.Command, m.roleModel(a))
	m.loseTask(a, "its agent was started again", api.InterruptedKept) // normally there is none
	if len(cmd) == 0 {
		return m.ready(ctx, a, force)
	}
	if err := m.raise(ctx, a, force); err != nil {
		return err
	}
	return m.runMain(ctx, a, nil, wire.StartRequest{Command: cmd, TTY: true})
}

// BringUp starts the sandbox of an agent that is Stopped or in Error, and not its program. Tasks that wait
// begin. It changes nothing for an agent that is up.
func (m *Manager) BringUp(ctx context.Context, name string, force bool) (api.Agent, error) {
	a, err := m.findFor(ctx, name, verbStart)
	if err != nil {
		return api.Agent{}, err
	}
	defer a.op.Unlock()
	if err := m.writable(a); err != nil {
		return api.Agent{}, err
	}
	if st := a.status(m); st != api.StatusRunning {
		m.renewType(ctx, a)
		if st == api.StatusError || st == api.StatusStopped {
			m.loseTask(a, "its agent was started again", api.InterruptedKept) // normally there is none
		}
	}
	if err := m.ready(ctx, a, force); err != nil {
		return api.Agent{}, err
	}
	return m.live(ctx, a), nil
}

// ready is ensureUp; tasks that wait begin. a.op is held.
func (m *Manager) ready(ctx context.Context, a *Agent, force bool) error {
	err := m.ensureUp(ctx, a, force)
	if err == nil {
		m.next(a, false)
	}
	return err
}

func (a *Agent) status(m *Manager) api.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.Kept.Status
}

// ensureUp starts the agent if it is not up: then it is Idle. An agent that is up keeps its state.
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

// raise starts the shim if it is not up, for a command that is started next and makes the agent
// Running.
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
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.downTime(a))
		defer cancel()
		err = errors.Join(err, m.takeDown(uctx, a))
		m.setStatus(a, api.StatusError, api.AsError(err).Message)
		return err
	}
	return nil
}

// settle makes an agent that is up Idle: its command has ended, or it has none. The state changes
// through Running, as in the state diagram.
func (m *Manager) settle(a *Agent, reason string) {
	if !May(a.status(m), api.StatusIdle) {
		m.setStatus(a, api.StatusRunning, "")
	}
	m.setStatus(a, api.StatusIdle, reason)
}

// runMain starts the main command. known is the state of the shim, nil if it was not read.
func (m *Manager) runMain(ctx context.Context, a *Agent, known *wire.Status, req wire.StartRequest) error {
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	if req.NoInput || req.Task != "" {
		if known == nil {
			st, err := sh.Status(ctx)
			if err != nil {
				return err
			}
			known = &st
		}
		v, err := wire.Agree(*known)
		req.NoInput = req.NoInput && err == nil && v >= wire.NoInputVersion
		if err != nil || v < wire.TaskVersion {
			req.Task = ""
		}
	}
	m.mu.Lock()
	m.clearExiting(a) // of a command before
	m.mu.Unlock()
	if err := m.Shims.RefreshHome(a); err != nil {
		m.Log.Warn("files of the owner's home not refreshed", "agent", a.Name(), "err", err)
	}
	req.Env = append(m.Shims.Settings(a).Vars, req.Env...)
	if err := sh.Start(ctx, req); err != nil {
		m.settle(a, "its command was not started: "+api.AsError(err).Message)
		return err
	}
	m.setStatus(a, api.StatusRunning, "")
	// The end of the command may have been processed before its state was recorded.
	began := func(st wire.Status) {
		m.sinceOf(a, st)
		if !st.Running {
			m.ended(a, st)
		}
	}
	if st, err := sh.Status(ctx); err == nil {
		began(st)
		return nil
	}
	generation := a.Copy().Generation
	m.wg.Go(func() {
		sh := m.Shims.Dial(a.Name())
		defer sh.Close()
		if st, ok := m.stateOf(m.ctx, sh, a); ok && st.Task == req.Task && m.isOf(a, generation) {
			began(st)
		}
	})
	return nil
}

// isOf reports whether an agent still has the shim of that generation.
func (m *Manager) isOf(a *Agent, generation uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agents[a.Name()] == a && a.Kept.Generation == generation && !a.leaving
}

// ended records the end of the main command.
func (m *Manager) ended(a *Agent, st wire.Status) {
	// This comes before the state: a daemon that dies in between processes the end again. What the
	// agent itself reported about the end takes precedence.
	end := m.exitOf(st)
	if st.Done != nil {
		end = doneEnd(*st.Done)
	}
	publish := func() {}
	if m.works(a, st.Task) {
		publish = m.finishTask(a, end, true)
	}
	m.markExited(a, st.Task)
	m.lateReport(a, st)
	status, reason := api.StatusIdle, ""
	switch {
	case st.OOM != "":
		status, reason = api.StatusError, string(api.CodeOOMKilled)+": "+st.OOM
	case st.ExitCode != nil && *st.ExitCode != 0:
		reason = fmt.Sprintf("the command ended with exit code %d", *st.ExitCode)
	}
	changed := m.foundUnless(a, status, reason, func() bool {
		cur, because := a.Kept.Status, a.Kept.StatusReason
		// A daemon that died between starting a command and recording it finds the agent Idle, and the
		// end of the command among the events. Meanwhile the next task can have begun.
		return a.Kept.InTask || cur != api.StatusRunning && (cur != api.StatusIdle || because != "")
	})
	// A caller that gets the event finds the agent Idle.
	publish()
	if !changed {
		return
	}
	if a.OfAgent() {
		m.wg.Go(func() { m.releaseIdle(m.ctx, a) })
	}
	if st.LeftRunning {
		m.wg.Go(func() { m.leftRunning(a) })
	}
	m.next(a, false)
}

// Stop ends the agent's command and sandbox. Worktree, branch and settings stay.
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
	// Once begun, the stop completes even if the caller's context ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.downTime(a))
	defer cancel()
	m.endTask(a, task.End{By: api.EndStop})
	err := m.takeDown(ctx, a)
	if err != nil {
		m.setStatus(a, api.StatusError, err.Error())
		return api.Errorf(api.CodeReapFailed, "stop agent %s: %w", a.Name(), err)
	}
	m.setStatus(a, api.StatusStopped, "")
	return nil
}
