package agent

import "context"

// NoSnapshots is why a workspace without git has no snapshots.
const NoSnapshots = "its agents share their files, so they have no snapshots"

// Still calls act with the agent while none of its processes runs and no change of its files begins.
// invalidate makes its view show what act changed below it. verb names the operation in messages,
// reason is for people. act must observe its context.
func (m *Manager) Still(ctx context.Context, name, verb, reason string, act func(ctx context.Context, a *Agent, invalidate func(context.Context) error) error) error {
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
	return m.whileStill(ctx, a, reason, func(ctx context.Context) error {
		return act(ctx, a, func(ctx context.Context) error { return m.invalidate(ctx, a) })
	})
}

// invalidate makes the kernel drop its cache of an agent's view. a.op is held.
func (m *Manager) invalidate(ctx context.Context, a *Agent) error {
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if !up {
		return nil
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	return sh.Invalidate(ctx)
}

// WorkspaceOf returns the name of an agent's workspace.
func (m *Manager) WorkspaceOf(name string) (string, error) {
	a, err := m.lookup(name)
	if err != nil {
		return "", err
	}
	return a.WS.Name, nil
}
