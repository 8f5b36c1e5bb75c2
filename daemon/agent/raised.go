package agent

import (
	"context"
	"time"

	"polis/daemon/api"
)

// raiseTime bounds the wait for other operations of an agent whose memory limit was raised.
const raiseTime = 10 * time.Minute

// memoryRaised keeps a memory limit that an answer has raised: the shim has applied it already, and
// an earlier limit in the agent's settings would revoke it.
func (m *Manager) memoryRaised(a *Agent, e api.Event) {
	mb, ok := e.Data["memory_mb"].(float64)
	if !ok || mb < 1 || mb > 1<<20 {
		m.Log.Warn("memory limit of an answer not understood", "agent", a.Name())
		return
	}
	m.mu.Lock()
	total := int(mb) + m.lent(a, nil).MemoryMB
	known := total <= a.Kept.MemoryLimitMB
	m.mu.Unlock()
	if known {
		return // the event was read before
	}
	m.wg.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, raiseTime)
		defer cancel()
		if _, err := m.setOnly(ctx, a, a.Name(), api.SetRequest{MemoryMB: total, Force: true}); err != nil && ctx.Err() == nil {
			m.Log.Error("raised memory limit not kept", "agent", a.Name(), "err", err)
		}
	})
}
