package agent

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// releaseTime bounds releasing the leases of a merged agent.
const releaseTime = 10 * time.Second

// releaseIdle releases the leases of an agent whose work is completely in the target: the next
// agent that edits the files starts from that work, so none needs to wait for the end of the hold.
// The branch of an agent's worker is its parent's to merge, who may edit the files then.
// An agent that works, or has other work, keeps its leases.
func (m *Manager) releaseIdle(ctx context.Context, a *Agent) {
	if !m.nothingLeft(ctx, a) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil || st.Running {
		return // an agent without a shim has no leases
	}
	if v, err := wire.Agree(st); err != nil || v < wire.ReleaseIdleVersion {
		return
	}
	if err := sh.ReleaseIdle(ctx); err != nil {
		m.Log.Warn("leases of a merged agent not released", "agent", a.Name(), "err", err)
	}
}

// nothingLeft reports whether an agent is Idle, and all of its work is in the target, or on the
// branch of an agent's worker.
func (m *Manager) nothingLeft(ctx context.Context, a *Agent) bool {
	if a.status(m) != api.StatusIdle {
		return false
	}
	st, err := a.WS.Repo.Status(ctx, a)
	return err == nil && st.Dirty == 0 && (st.Unmerged == 0 || a.OfAgent())
}
