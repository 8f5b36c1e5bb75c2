package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/rules/delegate"
	"polis/daemon/store"
)

const (
	// snapshotTime bounds saving or restoring the worktree of an agent that is held still; its shim
	// thaws it after stillTime, also if polisd has died.
	snapshotTime = 35 * time.Second
	stillTime    = snapshotTime + 10*time.Second
)

// Fork adds an agent that begins with the commit, the index and the files of another one, on a
// branch of its own. The other agent's processes are frozen while its files are saved, and then
// continue. The new agent has the other one's rules, but no path exclusively, and at most its limits. It
// is complete, or does not exist.
func (m *Manager) Fork(ctx context.Context, name string, req api.ForkRequest) (api.ForkResponse, error) {
	if err := errors.Join(api.CheckName(req.Name), req.Limits.Check()); err != nil {
		return api.ForkResponse{}, err
	}
	src, err := m.findAny(ctx, name, "fork")
	if err != nil {
		return api.ForkResponse{}, err
	}
	a, shot, still, err := m.forkOf(ctx, src, req)
	src.op.Unlock()
	if err != nil {
		return api.ForkResponse{}, err
	}
	defer a.op.Unlock()
	if err := m.refill(ctx, a, Saved{Ref: shot.Ref, Head: shot.Head, Copied: shot.Copied}, nil, req.Force); err != nil {
		m.Log.Warn("agent could not be forked", "agent", req.Name, "from", name, "err", err)
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		return api.ForkResponse{}, errors.Join(err, m.unrestore(uctx, a))
	}
	m.mu.Lock()
	a.Kept.Restoring = nil
	m.mu.Unlock()
	m.setStatus(a, api.StatusIdle, "")
	m.crash("fork:done")
	m.dropSnapshot(context.WithoutCancel(ctx), a, shot.Ref)
	m.Events.Publish(api.Event{Type: api.EventAgentForked, Agent: req.Name, Message: fmt.Sprintf("agent %s was forked from agent %s on branch %s", req.Name, name, a.Kept.Branch),
		Data: with(a.record(), map[string]any{"from": name, "commit": shot.Head, "leftOut": shot.LeftOut})})
	return api.ForkResponse{Agent: m.live(ctx, a), From: name, Commit: shot.Head, LeftOut: shot.LeftOut, StillMS: still.Milliseconds()}, nil
}

// forkOf registers the new agent and saves what it begins with. The op of src is held, that of the
// returned agent too.
func (m *Manager) forkOf(ctx context.Context, src *Agent, req api.ForkRequest) (a *Agent, shot Snapshot, still time.Duration, err error) {
	if a, err = m.forked(ctx, src, req); err != nil {
		return nil, shot, 0, err
	}
	drop := func(err error) (*Agent, Snapshot, time.Duration, error) {
		m.mu.Lock()
		delete(m.agents, a.Name())
		m.mu.Unlock()
		a.op.Unlock()
		m.dropSnapshot(context.WithoutCancel(ctx), a, shot.Ref)
		return nil, Snapshot{}, 0, err
	}
	err = m.whileStill(ctx, src, "its files are saved for a fork", func(ctx context.Context) (err error) {
		began := time.Now()
		shot, err = src.WS.Repo.Snapshot(ctx, src, req.Name, req.Ignored)
		still = time.Since(began)
		return err
	})
	if api.CodeOf(err) == api.CodeWorktreeFailed && err != nil {
		err = api.Errorf(api.CodeWorktreeFailed, "fork agent %s: %w", src.Name(), err).WithHint("agent %s is as it was; the disk may be full, or git cannot read its files: polisctl agents exec %s -- git status", src.Name(), src.Name())
	}
	if err != nil {
		return drop(err)
	}
	m.crash("fork:saved")
	m.mu.Lock()
	a.Kept.Restoring = &store.Removal{Trash: shot.Ref, Head: shot.Head, From: src.Name()}
	m.mu.Unlock()
	if err := m.save(a.WS); err != nil {
		return drop(err)
	}
	m.crash("fork:noted")
	return a, shot, still, nil
}

// forked registers the new agent. Its op is then held. The op of src is held.
func (m *Manager) forked(ctx context.Context, src *Agent, req api.ForkRequest) (*Agent, error) {
	if err := src.WS.NeedsGit("its agents share their files already"); err != nil {
		return nil, err
	}
	if err := src.changes("be forked"); err != nil {
		return nil, err
	}
	if err := m.Isolated(); err != nil {
		return nil, err
	}
	k, c := src.Copy(), m.config()
	if k.RulesLost {
		return nil, rulesLost(k.Name)
	}
	has, err := rights(c, src, k)
	if err != nil {
		return nil, err
	}
	got, err := delegate.Narrow(has, delegate.Want{MemoryMB: req.MemoryMB, Limits: req.Limits, Egress: req.Egress, HostPorts: req.HostPorts})
	if err != nil {
		return nil, err
	}
	branch := cmp.Or(req.Branch, "agent/"+req.Name)
	there, err := src.WS.Repo.HasBranch(ctx, branch)
	if err != nil {
		return nil, err
	}
	if _, taken := m.lookup(req.Name); taken != nil && there { // else enter reports the agent
		return nil, api.Errorf(api.CodeRefConflict, "branch %s is there already", api.Shorten(branch, 200)).WithHint("a fork begins a new branch: --branch chooses another name")
	}
	sess, err1 := secret()
	sec, err2 := secret()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	pol := k.Policy
	pol.Exclusive = nil
	n := store.Agent{Name: req.Name, BaseType: k.BaseType, Branch: branch, Role: k.Role, MemoryLimitMB: got.MemoryMB, Limits: req.Limits.Over(k.Limits), Command: slices.Clone(k.Command),
		Policy: pol, AutoMerge: k.AutoMerge, RemoveAfter: k.RemoveAfter, Ephemeral: req.Ephemeral, Leftovers: k.Leftovers, Egress: slices.Clone(k.Egress), HostPorts: slices.Clone(k.HostPorts),
		Env: maps.Clone(k.Env), Sparse: src.WS.Repo.Cone(ctx, src), PortMappings: []store.PortMap{}, CreatedAt: m.Now().UTC().Truncate(time.Millisecond), Status: api.StatusCreating, Session: sess, Secret: sec,
		Restoring: &store.Removal{From: k.Name}}
	if req.Egress != nil {
		n.Egress = got.Egress
	}
	if req.HostPorts != nil {
		n.HostPorts = got.HostPorts
	}
	a := &Agent{WS: src.WS, Type: src.Type, Kept: n}
	return a, m.enter(a, c)
}

// whileStill calls act while none of the agent's processes runs, so that what it reads of the files
// is of one moment. reason is for people. act must observe its context. a.op is held, so nothing else
// starts or thaws the agent.
func (m *Manager) whileStill(ctx context.Context, a *Agent, reason string, act func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, snapshotTime, api.Errorf(api.CodeTimeout, "the files of agent %s were not read or written in %s", a.Name(), snapshotTime).
		WithHint("polisctl agents stop %s, then try again", a.Name()))
	defer cancel()
	m.mu.Lock()
	up, foreign, generation := a.up, a.foreign, a.Kept.Generation
	m.mu.Unlock()
	stop := func(why string) error {
		return api.Errorf(api.CodeBadState, "agent %s cannot be held still: %s", a.Name(), why).WithHint("polisctl agents stop %s, then try again", a.Name())
	}
	if foreign {
		return stop("its shim is of a version that this polisd does not understand")
	}
	if !up {
		return act(ctx)
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return err
	}
	if n, err := wire.Agree(st); err != nil || n < wire.FreezeVersion {
		return stop("its shim is of an earlier version")
	}
	if st.Frozen != nil && st.Frozen.Until == nil {
		return act(ctx) // until a person thaws it
	}
	// The shim and the next polisd undo a freeze of this kind by themselves.
	if err := sh.Freeze(ctx, wire.FreezeRequest{Generation: generation, By: api.FrozenByPatrol, Reason: reason, For: setting.Duration(stillTime)}); err != nil {
		return err
	}
	defer m.thawPatrol(ctx, a, sh)
	m.crash("fork:frozen")
	if err := act(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// dropSnapshot deletes what was saved for a fork only.
func (m *Manager) dropSnapshot(ctx context.Context, a *Agent, ref string) {
	ctx, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	if err := a.WS.Repo.DropSnapshot(ctx, a.Name(), ref); err != nil {
		m.Log.Warn("what was saved for a fork is left", "agent", a.Name(), "workspace", a.WS.Name, "ref", ref, "err", err)
	}
}
