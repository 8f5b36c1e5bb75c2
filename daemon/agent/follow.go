package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// startFollow follows the shim's events until takeDown or Close. a.op is held.
func (m *Manager) startFollow(a *Agent) {
	ctx, cancel := context.WithCancel(m.ctx)
	done := make(chan struct{})
	m.mu.Lock()
	gen := a.Kept.Generation
	opens, prepared := make(chan struct{}), make(chan struct{})
	a.follow = func() { cancel(); <-done; <-opens; <-prepared }
	m.mu.Unlock()
	m.wg.Go(func() {
		defer close(opens)
		if m.FollowOpens != nil {
			m.FollowOpens(ctx, a.Name())
		}
	})
	m.wg.Go(func() {
		defer close(prepared)
		if m.Prepare != nil && a.WS.Git && !a.Copy().ReadOnly {
			m.Prepare(ctx, a.Name())
		}
	})
	m.wg.Go(func() {
		defer close(done)
		m.followShim(ctx, a, gen)
	})
}

// followShim reads events and reconnects. When the shim has ended it reports that and cleans up.
func (m *Manager) followShim(ctx context.Context, a *Agent, gen uint64) {
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	for ctx.Err() == nil {
		m.mu.Lock()
		since := a.last
		m.mu.Unlock()
		err := sh.Events(ctx, since, func(e api.Event) { m.hear(ctx, sh, a, e) })
		if ctx.Err() != nil {
			return
		}
		m.Log.Debug("event stream of the shim ended", "agent", a.Name(), "err", err)
		alive, aerr := m.Shims.Alive(ctx, a)
		if aerr != nil {
			m.Log.Warn("shim not queried", "agent", a.Name(), "err", aerr)
		}
		if aerr == nil && !alive {
			// In another goroutine: the clean-up waits for this one.
			m.wg.Go(func() { m.reapShim(m.ctx, a, gen) })
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// reapShim cleans up after a shim that died. Its agent is in state Error, its mounts, processes
// and leases are gone, and its files are intact.
func (m *Manager) reapShim(ctx context.Context, a *Agent, gen uint64) {
	if a.op.Acquire(ctx) != nil {
		return
	}
	defer a.op.Unlock()
	m.mu.Lock()
	stale := a.Kept.Generation != gen || a.leaving || m.agents[a.Name()] != a
	hung := a.hung
	a.hung = ""
	m.mu.Unlock()
	if stale || m.halted(ctx) { // a machine that goes down ends both; the next polisd restores it
		return
	}
	reason := "its shim died"
	if hung != "" {
		reason = "its shim hung and was killed: " + hung
	}
	if said := m.Shims.Reason(a); said != "" {
		reason += ": " + said
	}
	m.Log.Error("shim died", "agent", a.Name(), "reason", reason)
	m.loseTask(a, reason, api.InterruptedNew)
	ctx, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	if err := m.takeDown(ctx, a); err != nil {
		m.Log.Error("dead shim not cleared up", "agent", a.Name(), "err", err)
	}
	m.setStatus(a, api.StatusError, reason+"; polisctl agents start "+a.Name()+" brings it back with all its files")
	m.keepLost(a)
}

// hear processes one event and saves the cursor, so that the next daemon continues after it. An
// event can be processed twice, and is never lost.
func (m *Manager) hear(ctx context.Context, sh Shim, a *Agent, e api.Event) {
	m.mu.Lock()
	last := a.last
	m.mu.Unlock()
	if last != 0 && e.ID > last+1 {
		m.missed(ctx, sh, a, e.ID-last-1)
	}
	m.handleEvent(ctx, sh, a, e)
	if ctx.Err() != nil {
		return // it may be processed in part: the next follower gets it again
	}
	m.mu.Lock()
	a.last = max(a.last, e.ID)
	m.mu.Unlock()
	if err := m.Shims.SaveCursor(a.Name(), e.ID); err != nil {
		m.Log.Warn("last event not recorded", "agent", a.Name(), "err", err)
	}
}

// missed handles events that the shim did not keep: while no daemon followed, more happened than
// the shim has room for.
func (m *Manager) missed(ctx context.Context, sh Shim, a *Agent, n uint64) {
	m.Log.Warn("events of the shim lost", "agent", a.Name(), "missing", n)
	m.Events.Publish(api.Event{Type: api.EventMissed, Agent: a.Name(), Data: map[string]any{"missing": n},
		Message: fmt.Sprintf("%d events of agent %s were not kept while polisd was away", n, a.Name())})
	st, ok := m.stateOf(ctx, sh, a)
	if !ok {
		return
	}
	m.mu.Lock()
	a.Kept.OwnedRefs = st.OwnedRefs
	m.mu.Unlock()
	m.syncPorts(ctx, sh, a, st)
	m.saidDone(a, st)
	if !st.Running {
		m.ended(a, st)
	}
}

// stateOf returns the state of a shim that reported an end. A shim can be slow then, or be stopped, and
// reports the end once: stateOf repeats the query, more and more rarely, until it answers, has ended or ctx has.
func (m *Manager) stateOf(ctx context.Context, sh Shim, a *Agent) (wire.Status, bool) {
	const rarest = 10 * time.Second
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, rarest) {
		st, err := sh.Status(ctx)
		if err == nil {
			return st, true
		}
		if ctx.Err() != nil {
			return st, false
		}
		if pause == 100*time.Millisecond || pause == rarest {
			m.Log.Warn("state of the shim not read", "agent", a.Name(), "err", err)
		}
		if alive, aerr := m.Shims.Alive(ctx, a); aerr == nil && !alive {
			return st, false // its end is handled as such
		}
		select {
		case <-ctx.Done():
			return st, false
		case <-time.After(pause):
		}
	}
}

// handleEvent processes one event of a shim and publishes those that concern users.
func (m *Manager) handleEvent(ctx context.Context, sh Shim, a *Agent, e api.Event) {
	switch e.Type {
	case wire.EventExit:
		if st, ok := m.stateOf(ctx, sh, a); ok && !st.Running {
			m.ended(a, st)
		}
		return
	case wire.EventAnswered:
		m.answered(a, e)
		return
	case wire.EventMemory:
		m.memoryRaised(a, e)
		return
	case api.EventFrozen, api.EventThawed:
		m.frozeEvent(ctx, sh, a)
	case wire.EventKeyRefused:
		m.keyRefused(a, e)
		return
	case wire.EventModelStop:
		m.wg.Go(func() { m.budgetSpent(a, e) })
		return
	case wire.EventModelShare:
		m.wg.Go(func() { m.grantModels(a) })
		return
	case wire.EventModelRaise:
		m.raiseModels(ctx, a, e)
		return
	case wire.EventModelPause:
		m.modelPaused(a, e)
		return
	case wire.EventDone:
		m.doneEvent(ctx, sh, a)
		return
	case wire.EventListen, wire.EventUnlisten, wire.EventListenUDP, wire.EventUnlistenUDP:
		protocol := api.ProtoTCP
		if e.Type == wire.EventListenUDP || e.Type == wire.EventUnlistenUDP {
			protocol = api.ProtoUDP
		}
		opened := e.Type == wire.EventListen || e.Type == wire.EventListenUDP
		if n, ok := e.Data["port"].(float64); ok && opened {
			m.autoMap(ctx, sh, a, protocol, int(n))
		} else if ok {
			m.unmap(ctx, sh, a, protocol, int(n))
		}
		return
	case wire.EventOwnRef:
		if ref, ok := e.Data["ref"].(string); ok {
			gone, _ := e.Data["gone"].(bool)
			m.ownRef(a, ref, gone)
		}
		return
	case api.EventPids, api.EventDisk, api.EventFiles, api.EventConnections:
		m.Log.Warn("limit reached", "agent", a.Name(), "code", e.Code, "text", e.Message)
	case api.EventOOM:
		m.Log.Warn("killed for memory", "agent", a.Name(), "code", api.CodeOOMKilled, "text", e.Message)
	}
	if !strings.HasPrefix(e.Type, wire.EventPrefix) {
		m.Events.Publish(e)
	}
}

func (m *Manager) ownRef(a *Agent, ref string, gone bool) {
	m.mu.Lock()
	i := slices.Index(a.Kept.OwnedRefs, ref)
	changed := gone == (i >= 0)
	switch {
	case changed && gone:
		a.Kept.OwnedRefs = slices.Delete(slices.Clone(a.Kept.OwnedRefs), i, i+1)
	case changed:
		a.Kept.OwnedRefs = append(a.Kept.OwnedRefs, ref)
	}
	m.mu.Unlock()
	if changed {
		m.Events.Publish(api.Event{Type: api.EventAgentRef, Agent: a.Name(), Message: refMessage(a.Name(), ref, gone), Data: map[string]any{"ref": ref, "gone": gone}})
		if err := m.save(a.WS); err != nil {
			m.Log.Error("state not saved", "agent", a.Name(), "err", err)
		}
	}
}
