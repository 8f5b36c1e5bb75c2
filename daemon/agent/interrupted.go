package agent

import (
	"context"
	"fmt"
	"strings"

	"polis/daemon/api"
	"polis/daemon/history/task"
)

// restarted handles the tasks that were lost when the last polisd, or the machine, ended, as [tasks]
// on_restart says. That it must is saved with the end of the task, so that a polisd that dies here
// leaves it to the next one.
func (m *Manager) restarted(a *Agent) {
	a.op.Lock()
	defer a.op.Unlock()
	for _, at := range []api.TaskInterruption{api.InterruptedNew, api.InterruptedKept, api.InterruptedPassed} {
		for _, id := range m.interrupted(a, at) {
			m.decideLost(a, id, at)
		}
	}
}

// interrupted returns the lost tasks of an agent at a stage.
func (m *Manager) interrupted(a *Agent, at api.TaskInterruption) []string {
	ids, err := m.records(a).Interrupted(at)
	if err != nil {
		m.Log.Error("tasks not read", "agent", a.Name(), "err", err)
	}
	return ids
}

// decideLost handles one lost task after a start of polisd. a.op is held.
func (m *Manager) decideLost(a *Agent, id string, at api.TaskInterruption) {
	t, err := m.records(a).Get(id)
	if err != nil {
		m.Log.Error("record of a task not read", "agent", a.Name(), "task", id, "err", err)
		return
	}
	// A polisd that died between the retry and this note has left the retry.
	if by, err := m.records(a).RetryOf(id); err == nil && by != "" {
		m.decided(a, id, "it is retried as "+by)
		return
	}
	if at != api.InterruptedNew {
		return
	}
	m.crash("restart:lost")
	stage := api.InterruptedKept
	switch how := m.config().Tasks.OnRestart; {
	case a.ofOther():
		stage = api.InterruptedPassed
	case how == api.OnRestartRetry && t.Interruptions <= 1:
		again, err := m.retryFirst(a, t)
		if err == nil {
			m.Log.Warn("lost task retried", "agent", a.Name(), "task", id, "retry", again.ID)
			return
		}
		m.Log.Error("lost task not retried", "agent", a.Name(), "task", id, "err", err)
	case how == api.OnRestartAsk && m.AskLost != nil:
		if err := m.AskLost(a, t); err != nil {
			m.Log.Error("question about a lost task not kept", "agent", a.Name(), "task", id, "err", err)
			return // the next start opens it
		}
		m.crash("restart:asked")
	}
	m.changeTask(a, id, func(t *api.Task) { t.Interrupted = stage })
}

// ofOther reports whether what gave the agent its task decides about it: a race, a replay, or the agent
// that delegated it.
func (a *Agent) ofOther() bool {
	k := a.Copy()
	return k.Race != "" || k.Replay != nil || k.Worker != nil
}

// retryFirst queues a lost task again, before those that wait. a.op is held.
func (m *Manager) retryFirst(a *Agent, old api.Task) (api.Task, error) {
	t := retryOf(old, m.Now().UTC())
	t.Interruptions, t.State = old.Interruptions, api.TaskQueued
	t, err := m.records(a).Create(t)
	if err != nil {
		return t, err
	}
	m.crash("restart:queued")
	m.decided(a, old.ID, "it is retried as "+t.ID)
	m.publishTask(t, "agent "+a.Name()+" gets task "+old.ID+" again, which was lost")
	return t, nil
}

// decided notes that a lost task was retried or dismissed. a.op is held.
func (m *Manager) decided(a *Agent, id, how string) {
	was := api.TaskInterruption("")
	m.changeTask(a, id, func(t *api.Task) { was, t.Interrupted = t.Interrupted, "" })
	if was != "" && m.LostDecided != nil {
		m.LostDecided(a, id, how)
	}
}

// keepLost leaves the tasks that an agent's shim lost while polisd ran to a person. a.op is held.
func (m *Manager) keepLost(a *Agent) {
	for _, id := range m.interrupted(a, api.InterruptedNew) {
		m.changeTask(a, id, func(t *api.Task) { t.Interrupted = api.InterruptedKept })
	}
}

// passLost notes that another task begins after lost ones, by a person's request: none waits for a
// decision about them any more. a.op is held.
func (m *Manager) passLost(a *Agent) {
	for _, id := range m.holding(a) {
		m.changeTask(a, id, func(t *api.Task) { t.Interrupted = api.InterruptedPassed })
	}
}

// holding returns the lost tasks of an agent because of which the tasks that wait do not begin.
func (m *Manager) holding(a *Agent) []string {
	return append(m.interrupted(a, api.InterruptedKept), m.interrupted(a, api.InterruptedNew)...)
}

// mayBegin reports whether a task that waits may begin: not after a lost one.
func (m *Manager) mayBegin(a *Agent, t api.Task) bool { return m.heldBy(a, t) == "" }

// heldBy returns the lost task behind which a task waits; "" if there is none. The retry of a lost task passes, and so
// does a text that a person says after the loss.
func (m *Manager) heldBy(a *Agent, t api.Task) string {
	for _, id := range m.holding(a) {
		switch lost, err := m.records(a).Get(id); {
		case t.Ahead && t.Said == nil:
		case t.Ahead && err == nil && lost.Ended != nil && t.Time.After(*lost.Ended):
		default:
			return id
		}
	}
	return ""
}

// dismiss notes that a person does not retry a lost task; those that wait can begin. a.op is held.
func (m *Manager) dismiss(a *Agent, id string) (api.Task, error) {
	m.decided(a, id, "it was dismissed")
	t, err := m.records(a).Get(id)
	if err == nil {
		m.publishLater(t, "lost task "+id+" of agent "+a.Name()+" was dismissed")
		m.next(a, false)
	}
	return t, err
}

// recoverFor brings an agent in state Error up for a task. It refuses if that ends a program or moves
// files: a person does so with start. a.op is held.
func (m *Manager) recoverFor(ctx context.Context, a *Agent) error {
	m.mu.Lock()
	foreign, corrupt := a.foreign, a.corrupt()
	m.mu.Unlock()
	if foreign || corrupt {
		return refusal(a.Name(), api.StatusError, verbRun)
	}
	if err := m.writable(a); err != nil {
		return err
	}
	m.loseTask(a, "another task began", api.InterruptedPassed) // normally there is none
	return m.ensureUp(ctx, a, false)
}

// notStarted is the stage of a task that could not be started: the tasks that wait pass it, unless it was the retry of a
// lost one, which they wait for.
func notStarted(t api.Task) api.TaskInterruption {
	if t.Ahead && t.Said == nil {
		return api.InterruptedKept
	}
	return api.InterruptedPassed
}

// decidedByRemoval ends the wait for a decision about the lost tasks of an agent that is removed: another agent of the
// name must not get them. a.op is held.
func (m *Manager) decidedByRemoval(a *Agent) {
	for _, id := range append(m.holding(a), m.interrupted(a, api.InterruptedPassed)...) {
		m.decided(a, id, "its agent was removed")
	}
}

// lostEnd is the end of a task that nobody saw.
func lostEnd(why string, at api.TaskInterruption) task.End {
	return task.End{By: api.EndLost, Message: why, Interrupted: at}
}

// lostText is what a person can do about a lost task, for the event of its end.
func lostText(t api.Task) string {
	if t.Interrupted == "" {
		return ""
	}
	return fmt.Sprintf(" (polisctl tasks retry %[1]s does it again, polisctl tasks cancel %[1]s dismisses it)", t.ID)
}

// corrupt reports whether the agent is in Error because of its worktree, which a start replaces. m.mu is held.
func (a *Agent) corrupt() bool {
	return strings.HasPrefix(a.Kept.StatusReason, string(api.CodeWorktreeCorrupt))
}
