package agent

import (
	"context"
	"fmt"

	"polis/daemon/api"
)

// removeAfter removes an agent whose branch was merged, if it has no other work, as seed 001
// requires. It does not wait; the merge queue continues.
func (m *Manager) removeAfter(a *Agent) {
	name := a.Name()
	done := make(chan error, 1)
	m.mu.Lock()
	m.removing[name] = done
	m.mu.Unlock()
	m.wg.Go(func() {
		_, err := m.removeOnly(m.ctx, a, name, false, false)
		if err != nil {
			m.Log.Warn("agent not removed after its merge", "agent", name, "op", "remove after merge", "err", err)
		}
		done <- err
		m.mu.Lock()
		defer m.mu.Unlock()
		if err == nil && m.removing[name] == done {
			delete(m.removing, name) // its absence means the same
		}
	})
}

// removal waits for the removal that a merge began, if any, and returns its result. An agent that
// cannot be removed stays, which is no failure of the merge.
func (m *Manager) removal(ctx context.Context, name string, resp *api.MergeResponse) error {
	m.mu.Lock()
	done := m.removing[name]
	m.mu.Unlock()
	if done == nil {
		_, err := m.lookup(name)
		resp.Removed = api.CodeOf(err) == api.CodeAgentNotFound && err != nil
		return nil
	}
	select {
	case err := <-done:
		done <- err // another merge of the same agent can wait for it too
		if resp.Removed = err == nil; err != nil {
			note := fmt.Sprintf("agent %s stays: %v", name, err)
			if resp.Note != "" {
				note = resp.Note + "; " + note
			}
			resp.Note = note
		}
		return nil
	case <-ctx.Done():
		return api.Errorf(api.CodeTimeout, "it is merged; wait for the removal of agent %s: %w", name, context.Cause(ctx))
	}
}
