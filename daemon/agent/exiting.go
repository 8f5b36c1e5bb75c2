package agent

import (
	"context"
	"time"

	"polis/daemon/api"
)

// exitTime is the usual Manager.ExitTime. A program exits a moment after its task has ended, unless it
// reported the end itself and continues.
const exitTime = 20 * time.Second

// exiting is the main command of a task that has ended, as long as its agent counts as Running.
type exiting struct {
	task string
	over chan struct{} // closed when the agent is not Running any more
	// exited is that its program has exited: what is left is to record what the task has done, which
	// has limits of its own.
	exited bool
}

// markExiting notes that the task has ended, before a caller can read it. The agent is Idle when its
// program has exited, and what the task left is recorded.
func (m *Manager) markExiting(a *Agent, id string, exited bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clearExiting(a)
	a.exiting = &exiting{id, make(chan struct{}), exited}
}

// markExited notes that the program of a task has exited that had ended before.
func (m *Manager) markExited(a *Agent, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.exiting != nil && a.exiting.task == id {
		a.exiting.exited = true
	}
}

// clearExiting wakes those who wait for the agent. m.mu is held.
func (m *Manager) clearExiting(a *Agent) {
	if a.exiting != nil {
		close(a.exiting.over)
		a.exiting = nil
	}
}

// isExiting returns what is closed when the agent is not Running any more, or nil if it is not Running
// or works, and whether its program has exited. With a task's ID it does so for that task only.
func (m *Manager) isExiting(a *Agent, id string) (over <-chan struct{}, exited bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.exiting == nil || a.Kept.Status != api.StatusRunning || a.Kept.InTask && a.Kept.Task != a.exiting.task || id != "" && a.exiting.task != id {
		return nil, false
	}
	return a.exiting.over, a.exiting.exited
}

// awaitExit waits until the program of the task has exited and what it left is recorded, for a program that
// continues at most ExitTime, and reports whether it waited. a.op may be held: the end of a program does not need it.
func (m *Manager) awaitExit(ctx context.Context, a *Agent, id string) (waited bool) {
	limit, cancel := context.WithTimeout(ctx, m.ExitTime)
	defer cancel()
	for {
		over, until := m.toAwait(ctx, limit, a, id)
		if over == nil {
			return waited
		}
		waited = true
		m.awaitOver(until, over)
	}
}

// toAwait is isExiting with the context that bounds the wait: limit for a program that continues, and ctx if it has
// exited. It returns nil as well if that has ended.
func (m *Manager) toAwait(ctx, limit context.Context, a *Agent, id string) (<-chan struct{}, context.Context) {
	over, exited := m.isExiting(a, id)
	until := limit
	if exited {
		until = ctx
	}
	if until.Err() != nil || m.ctx.Err() != nil {
		return nil, until
	}
	return over, until
}

// awaitOver waits for what toAwait returned. A program that exits meanwhile is awaited again.
func (m *Manager) awaitOver(until context.Context, over <-chan struct{}) {
	select {
	case <-over:
	case <-until.Done():
	case <-m.ctx.Done():
	}
}

// whenIdle is for an operation that a Running agent refuses: a caller who knows that a task has ended
// is not refused because the agent's state follows later. a.op is held, and is released while
// it waits: a stop need not wait. It returns the agent with its op held.
func (m *Manager) whenIdle(ctx context.Context, a *Agent) (*Agent, error) {
	limit, cancel := context.WithTimeout(ctx, m.ExitTime)
	defer cancel()
	for {
		over, until := m.toAwait(ctx, limit, a, "")
		if over == nil {
			return a, nil
		}
		a.op.Unlock()
		m.awaitOver(until, over)
		var err error
		if a, err = m.find(ctx, a.Name()); err != nil {
			return nil, err
		}
	}
}
