package agent

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// NoSnapshots is why a workspace without git has no snapshots.
const NoSnapshots = "its agents share their files, so they have no snapshots"

// Held is an agent that is held still.
type Held struct {
	*Agent
	m *Manager
}

// Still calls act with the agent while none of its processes runs and no change of its files begins.
// verb names the operation in messages, reason is for people. act must observe its context.
func (m *Manager) Still(ctx context.Context, name, verb, reason string, act func(context.Context, Held) error) error {
	return m.Hold(ctx, name, verb, func(ctx context.Context, h Held) error { return h.Still(ctx, reason, act) })
}

// Hold calls act with the agent while no other operation of it begins. Its processes run.
func (m *Manager) Hold(ctx context.Context, name, verb string, act func(context.Context, Held) error) error {
	a, err := m.findAny(ctx, name, verb)
	if err != nil {
		return err
	}
	defer a.op.Unlock()
	if err := a.WS.NeedsGit(NoSnapshots); err != nil {
		return err
	}
	if err := a.changes(verb); err != nil {
		return err
	}
	return act(ctx, Held{a, m})
}

// Reach returns an agent that is not held: its shim can be asked what changes.
func (m *Manager) Reach(name string) (Held, error) {
	a, err := m.lookup(name)
	return Held{a, m}, err
}

// Still is Manager.Still while the caller holds the agent.
func (h Held) Still(ctx context.Context, reason string, act func(context.Context, Held) error) error {
	return h.m.whileStill(ctx, h.Agent, reason, func(ctx context.Context) error { return act(ctx, h) })
}

// beforeTask calls BeforeTask, and notes in the task if it made no checkpoint. a.op is held, and the agent runs no command.
func (m *Manager) beforeTask(ctx context.Context, a *Agent, t api.Task) api.Task {
	if m.BeforeTask == nil || !a.WS.Git {
		return t
	}
	if k := a.Copy(); k.ReadOnly {
		return t
	}
	err := m.BeforeTask(ctx, Held{a, m}, t)
	if err == nil {
		return t
	}
	m.Log.Warn("no checkpoint made before a task", "agent", a.Name(), "task", t.ID, "err", err)
	e := api.AsError(err)
	why := e.Message
	if e.Hint != "" {
		why += "; " + e.Hint
	}
	if noted, ok := m.changeTask(a, t.ID, func(t *api.Task) { t.NoCheckpoint = api.Shorten(why, 500) }); ok {
		t = noted
	}
	return t
}

// beforeRebase calls BeforeRebase. a.op is held.
func (m *Manager) beforeRebase(ctx context.Context, a *Agent) {
	if m.BeforeRebase == nil {
		return
	}
	if err := m.BeforeRebase(ctx, Held{a, m}); err != nil {
		m.Log.Warn("no checkpoint made before the target was merged into a branch", "agent", a.Name(), "err", err)
	}
}

// shim connects to the agent's shim; nil if it has none.
func (h Held) shim() Shim {
	h.m.mu.Lock()
	up := h.up
	h.m.mu.Unlock()
	if !up {
		return nil
	}
	return h.m.Shims.Dial(h.Name())
}

// Invalidate makes the view show what was changed below it.
func (h Held) Invalidate(ctx context.Context) error {
	sh := h.shim()
	if sh == nil {
		return nil
	}
	defer sh.Close()
	return sh.Invalidate(ctx)
}

// Changes returns which paths the view may have changed, or notes those that are about to change below
// it. Without a view, or with a shim that keeps no set, nothing is known.
func (h Held) Changes(ctx context.Context, req wire.ChangesRequest) (wire.Changes, error) {
	sh := h.shim()
	if sh == nil {
		return wire.Changes{Whole: "the agent's view is not served"}, nil
	}
	defer sh.Close()
	out, err := sh.Changes(ctx, req)
	if err != nil {
		if st, serr := sh.Status(ctx); serr == nil {
			if n, verr := wire.Agree(st); verr != nil || n < wire.ChangesVersion {
				return wire.Changes{Whole: "the agent's shim is of an earlier version"}, nil
			}
		}
	}
	return out, err
}

// OwnedRefs returns the refs that the agent made. A living shim is queried: its events of the last ones may not have come.
func (h Held) OwnedRefs(ctx context.Context) ([]string, error) {
	sh := h.shim()
	if sh == nil {
		return h.Copy().OwnedRefs, nil
	}
	defer sh.Close()
	st, err := sh.Status(ctx)
	return st.OwnedRefs, err
}

// Homes returns the name of the workspace of each agent.
func (m *Manager) Homes() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]string, len(m.agents))
	for name, a := range m.agents {
		out[name] = a.WS.Name
	}
	return out
}

// WorkspaceOf returns the name of an agent's workspace.
func (m *Manager) WorkspaceOf(name string) (string, error) {
	a, err := m.lookup(name)
	if err != nil {
		return "", err
	}
	return a.WS.Name, nil
}
