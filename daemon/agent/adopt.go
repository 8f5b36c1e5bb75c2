package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/store"
)

// revive adopts a running shim, or restarts what was up when the daemon ended.
func (m *Manager) revive(ctx context.Context, a *Agent, rep *Report) {
	a.op.Lock()
	defer a.op.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.downTime(a))
	defer cancel()
	alive, err := m.Shims.Alive(ctx, a)
	if err != nil {
		rep.add(&rep.Errors, "agent %s: %v", a.Name(), err)
	}
	if alive {
		if err = m.adopt(ctx, a); err == nil {
			rep.add(&rep.Adopted, "%s", a.Name())
			return
		}
		m.Log.Warn("running shim does not answer and is restarted", "agent", a.Name(), "err", err)
	}
	st := a.status(m)
	if err := m.Shims.Remove(ctx, a); err != nil {
		rep.add(&rep.Errors, "agent %s: clear up: %v", a.Name(), err)
	} else {
		m.Locks.DropAgent(a.Name()) // no other agent waits any more for it to reclaim
	}
	if st != api.StatusIdle && st != api.StatusRunning {
		rep.add(&rep.Kept, "%s (%s)", a.Name(), st)
		return
	}
	if m.halted(ctx) {
		rep.add(&rep.Kept, "%s (%s): the daemon is stopping; the next one restores it", a.Name(), st)
		return
	}
	if err := m.bringUp(ctx, a); err != nil {
		cut := m.halted(ctx)
		if derr := m.takeDown(ctx, a); derr != nil {
			m.Log.Error("agent not cleared up", "agent", a.Name(), "err", derr)
		}
		if cut {
			rep.add(&rep.Kept, "%s (%s): the daemon is stopping; the next one restores it", a.Name(), st)
			return
		}
		code := api.CodeNSRestoreFailed
		if st == api.StatusRunning {
			m.loseTask(a, "polisd was stopped", api.InterruptedNew)
		}
		m.setStatus(a, api.StatusError, string(code)+": "+api.AsError(err).Message)
		rep.add(&rep.Errors, "agent %s: %s: its sandbox could not be made again: %v", a.Name(), code, err)
		return
	}
	reason := ""
	if st == api.StatusRunning {
		reason = "restored; its command ended with the daemon's stop and is not run again"
		if e := m.loseTask(a, "polisd was stopped", api.InterruptedNew); e.Exit != nil {
			reason = fmt.Sprintf("restored; its command had ended with exit code %d", *e.Exit)
		}
	}
	m.setStatus(a, api.StatusIdle, reason)
	rep.add(&rep.Restored, "%s", a.Name())
}

// adopt takes over an agent whose shim runs. a.op is held.
func (m *Manager) adopt(ctx context.Context, a *Agent) error {
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := m.answer(ctx, a, sh)
	if err != nil {
		return err
	}
	if _, err := wire.Agree(st); err != nil {
		// Its agent is working: do not kill it.
		m.mu.Lock()
		a.up, a.foreign, a.Network.Address = true, true, st.Address
		m.mu.Unlock()
		m.Log.Error("shim of another version", "agent", a.Name(), "err", err)
		m.found(a, api.StatusError, err.Error()+"; polisctl agents start "+a.Name()+" replaces it and ends what runs in it")
		return nil
	}
	if sp, ok := m.Shims.Spec(a.Name()); ok && st.Address == "" {
		st.Address = sp.Address // the first shims did not report it
	}
	group := m.group(a)
	m.knowTask(a, st)
	m.sinceOf(a, st)
	m.adoptPorts(a, st)
	m.mu.Lock()
	a.Kept.CgroupPath = group
	a.up = true
	a.Kept.Generation = max(a.Kept.Generation, st.Generation)
	cur := a.Kept.Status
	a.Kept.OwnedRefs = st.OwnedRefs // the shim has recorded every ref made and removed
	a.Network.Address = st.Address
	m.mu.Unlock()
	switch {
	case st.Running && cur != api.StatusRunning:
		m.found(a, api.StatusRunning, "")
	case !st.Running && st.ExitCode == nil && st.Done == nil && st.Task == "" && cur == api.StatusRunning:
		// A polisd that died while it restored the agent made this shim, which has run nothing.
		m.loseTask(a, "polisd was stopped", api.InterruptedNew)
		m.setStatus(a, api.StatusIdle, "restored; its command ended with the daemon's stop and is not run again")
	case !st.Running && (cur == api.StatusRunning || st.Task != "" && m.works(a, st.Task)):
		m.ended(a, st)
	case cur == api.StatusStopped:
		m.found(a, api.StatusIdle, "")
	}
	if st.Running {
		m.saidDone(a, st) // a polisd that stopped may not have processed that event
	}
	if st.Running && st.Task != "" && !m.works(a, st.Task) {
		m.markExiting(a, st.Task, false)
	}
	m.syncPorts(ctx, sh, a, st)
	if st.Version < wire.EgressVersion {
		if err := m.openGate(ctx, a, m.Shims.Settings(a)); err != nil {
			m.Log.Error("no network until the agent is started again", "agent", a.Name(), "err", err)
		}
	}
	if err := m.applySettings(ctx, a, false); err != nil && st.Version >= wire.SettingsVersion {
		m.Log.Error("agent's settings not applied", "agent", a.Name(), "err", err)
	}
	// The events continue after the last one that was processed, so that those of the time without
	// a daemon are processed now.
	seen, ok := m.Shims.LoadCursor(a.Name())
	if !ok {
		seen = st.LastEvent
		m.replayPorts(ctx, sh, a, st)
	}
	m.mu.Lock()
	a.last = seen
	m.mu.Unlock()
	m.adoptFrozen(ctx, a, sh, st.Frozen)
	m.startFollow(a)
	return nil
}

// answerTime is how long a running shim may take to report its state before it counts as hung and
// is replaced. A machine under load can take long.
const answerTime = 20 * time.Second

// answer queries a shim for its state until it answers, hangs or has ended: the last daemon can
// have stopped it.
func (m *Manager) answer(ctx context.Context, a *Agent, sh Shim) (st wire.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for {
		if st, err = sh.Status(ctx); err == nil {
			return st, nil
		}
		if alive, aerr := m.Shims.Alive(ctx, a); aerr == nil && !alive {
			return st, fmt.Errorf("it has ended: %w", err)
		}
		if _, ok := m.Shims.Spec(a.Name()); !ok {
			return st, fmt.Errorf("its files are gone: %w", err) // it will not create its socket any more
		}
		select {
		case <-ctx.Done():
			return st, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fromSpec restores what the spec of the agent's shim still contains.
func (m *Manager) fromSpec(a *Agent, sp wire.Spec, types map[string]config.BaseType) {
	k := &a.Kept
	k.Branch, k.Policy, k.MemoryLimitMB, k.CreatedAt, k.Generation = sp.Branch, sp.Policy, int(sp.MemoryBytes>>20), sp.Created, sp.Generation
	k.Session, k.Secret, k.OwnedRefs, k.Role, k.Command, k.StatusReason = sp.Session, sp.Secret, sp.OwnedRefs, sp.Role, sp.Command, ""
	k.Env, k.ReadOnly, k.Recording = sp.OwnEnv, sp.ReadOnly, sp.Record
	k.RulesLost, k.Egress, k.HostPorts = false, m.egressOf(a, sp), m.hostPortsOf(a, sp)
	k.Limits = api.Limits{Pids: int(sp.Pids), CPUPercent: int(sp.CPUPercent), CPUWeight: int(sp.CPUWeight), IOWeight: int(sp.IOWeight),
		DiskMB: int(sp.DiskBytes >> 20), DiskFiles: int(sp.DiskFiles), Connections: int(sp.Connections)}
	if sp.Worker {
		k.Ephemeral, k.Worker = true, &store.Worker{Parent: sp.Parent} // of nobody, but with a worker's limits
	}
	if t, ok := types[sp.BaseType]; ok {
		a.Type, k.BaseType = t, sp.BaseType
	}
	for _, p := range sp.Ports {
		k.PortMappings = append(k.PortMappings, store.PortMap{Internal: p.Internal, External: p.External, Protocol: cmp.Or(p.Protocol, api.ProtoTCP)})
	}
}

// egressOf returns an agent's own egress setting, reconstructed from the spec of its shim: none if
// it equals that of the role, type and configuration.
func (m *Manager) egressOf(a *Agent, sp wire.Spec) []string {
	c := m.config()
	if usual, err := c.Reach(sp.Role, a.Type, config.Own{}); err == nil && slices.Equal(usual.Policy.Entries(), sp.Egress) {
		return nil
	}
	if len(sp.Egress) == 0 {
		return []string{"none"}
	}
	return slices.Clone(sp.Egress)
}

// hostPortsOf is egressOf for host ports.
func (m *Manager) hostPortsOf(a *Agent, sp wire.Spec) []uint16 {
	c := m.config()
	if usual, err := c.Reach(sp.Role, a.Type, config.Own{}); err == nil && slices.Equal(usual.HostPorts, sp.HostPorts) {
		return nil
	}
	return append([]uint16{}, sp.HostPorts...)
}
