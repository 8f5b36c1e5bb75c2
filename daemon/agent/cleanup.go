package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/patrol/cleanup"
	"polis/daemon/store"
)

// cleanupWait bounds the wait for other operations on an agent that is to be removed: one that is
// busy is not over.
const cleanupWait = 5 * time.Second

// over reports that the work of an agent may have ended.
func (m *Manager) over(a *Agent) {
	m.mu.Lock()
	ephemeral := a.Kept.Ephemeral
	m.mu.Unlock()
	if ephemeral && m.Over != nil {
		m.Over()
	}
}

// Ephemeral returns the agents that exist for their work only, by name.
func (m *Manager) Ephemeral() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for name, a := range m.agents {
		if a.Kept.Ephemeral {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// WorkOver returns the state of an agent's work, and why it has ended; over is false if it has not.
func (m *Manager) WorkOver(ctx context.Context, name string) (s cleanup.State, why string, over bool) {
	a, err := m.lookup(name)
	if err != nil {
		return s, "", false
	}
	s = m.workState(a)
	if why, over = cleanup.Over(s); !over {
		return s, why, over
	}
	// The shim is queried only now: few agents are over.
	m.observeUse(ctx, a, &s)
	why, over = cleanup.Over(s)
	return s, why, over
}

// workState returns what the records report.
func (m *Manager) workState(a *Agent) cleanup.State {
	m.mu.Lock()
	k := a.Kept
	s := cleanup.State{Agent: k.Name, Workspace: a.WS.Name, Created: k.CreatedAt, Generation: k.Generation, Status: k.Status, Ephemeral: k.Ephemeral, InTask: k.InTask}
	if k.Removal != nil || a.coming || a.foreign {
		s.Ephemeral = false // another operation decides about it
	}
	rule := cmp.Or(k.Leftovers, m.cfgLive.Roles[k.Role].Leftovers)
	m.mu.Unlock()
	s.LeftoversKept = rule == api.LeftoversKeep || rule == api.LeftoversAsk
	if !s.Ephemeral {
		return s
	}
	s.Merging = a.WS.Queue != nil && a.WS.Git && a.WS.Queue.Waits(a.Name())
	last, err := m.records(a).Last()
	switch {
	case err != nil:
		s.Err = err
	case last != nil:
		s.Queued = last.Queued
		if last.ID == "" {
			return s
		}
		t, err := m.records(a).Get(last.ID)
		if err != nil {
			s.Err = err
			return s
		}
		// An agent that got the name of one that is gone also has the tasks of that one.
		if !t.Time.Before(s.Created) {
			s.Task, s.Final, s.Outcome, s.Reported = t.ID, t.Final, t.Outcome, t.CleanupStatus
		}
	}
	return s
}

// observeUse adds what the shim reports, if it runs.
func (m *Manager) observeUse(ctx context.Context, a *Agent, s *cleanup.State) {
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if !up {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		s.Err = err
		return
	}
	s.Sessions = st.Sessions
	if st.Running {
		s.Status = api.StatusRunning
	}
	left, err := m.leftoversOf(ctx, sh, st)
	if err != nil {
		s.Err = err
	}
	s.Leftovers = len(left)
}

// CleanUp decides about an agent whose work has ended, and removes it if nothing of the work is only
// there. Unless dry it measures twice: the second time nothing of the agent runs any more, and no
// other operation can change it. That is why it is stopped, and not only frozen: a freeze ends after
// [frozenFor], and remotes may take longer to answer. It is frozen while it is checked once more
// that no one has begun to use it. was is the state that the decision is about.
func (m *Manager) CleanUp(ctx context.Context, was cleanup.State, dry bool) (api.Cleanup, error) {
	a, err := m.lookup(was.Agent)
	if err != nil {
		return api.Cleanup{}, err
	}
	c := m.decide(ctx, a, was)
	m.crash("cleanup:measured")
	if dry || c.Action != api.CleanupRemove {
		return c, nil
	}
	wctx, cancel := context.WithTimeout(ctx, cleanupWait)
	a, err = m.find(wctx, was.Agent)
	cancel()
	if err != nil {
		return c, err
	}
	defer a.op.Unlock()
	same := func(Living) bool {
		now := m.workState(a)
		m.observeUse(ctx, a, &now)
		_, over := cleanup.Over(now)
		return over && now.Same(was)
	}
	if !same(Living{}) {
		return c, errChanged(was.Agent)
	}
	m.crash("cleanup:decided")
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if up {
		if err := m.whileFrozen(ctx, a, same, func(Shim) error { return m.stop(ctx, a) }); err != nil {
			return c, err
		}
	}
	m.crash("cleanup:stopped")
	if again := m.decide(ctx, a, was); again.Action != api.CleanupRemove {
		again.Evidence = append(again.Evidence, "it changed while its sandbox was being stopped")
		return again, nil
	}
	resp, err := m.remove(ctx, a, store.Removal{})
	c.Trash, c.Done = resp.Trash, err == nil
	return c, err
}

func (m *Manager) decide(ctx context.Context, a *Agent, s cleanup.State) api.Cleanup {
	why, _ := cleanup.Over(s)
	var measured cleanup.Measured
	if a.WS.Git {
		measured = a.WS.Repo.Measure(ctx, a)
	}
	c := cleanup.Decide(s, why, measured)
	c.At = m.Now().UTC()
	return c
}
