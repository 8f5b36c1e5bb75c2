package agent

import (
	"context"
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
)

const (
	// frozenFor is how long the patrol may keep an agent frozen: the shim thaws it then, also if
	// polisd has died.
	frozenFor = 20 * time.Second
	thawTime  = 5 * time.Second
)

// whileFrozen calls act for an agent that same still accepts while its processes are frozen, so that
// what was decided about cannot change before it is done. act ends or removes what is frozen, or
// thaws it; if it is not called, or fails, the agent is thawed. A shim of an earlier version cannot
// freeze: then same is called right before. a.op is held.
func (m *Manager) whileFrozen(ctx context.Context, a *Agent, same func(Living) bool, act func(sh Shim) error) error {
	v := m.observe(ctx, a, nil)
	if !same(v) {
		return errChanged(a.Name())
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return err
	}
	if n, err := wire.Agree(st); err != nil || n < wire.FreezeVersion {
		return act(sh)
	}
	if err := sh.Freeze(ctx, wire.FreezeRequest{Generation: v.Generation, By: api.FrozenByPatrol, Reason: "the patrol decides", For: setting.Duration(frozenFor)}); err != nil {
		return err
	}
	m.crash("patrol:frozen")
	v = m.observe(ctx, a, nil)
	if v.Waiting != nil && v.Waiting.For == api.WaitingThaw {
		v.Waiting = nil // it is this freeze
	}
	err = errChanged(a.Name())
	if same(v) {
		err = act(sh)
	}
	if err != nil {
		m.thawPatrol(ctx, a, sh)
	}
	return err
}

// thawPatrol ends a freeze of the patrol.
func (m *Manager) thawPatrol(ctx context.Context, a *Agent, sh Shim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTime)
	defer cancel()
	if err := sh.Thaw(ctx, wire.ThawRequest{By: api.FrozenByPatrol}); err != nil && api.CodeOf(err) != api.CodeBadState {
		m.Log.Warn("agent not thawed; its shim does it by itself", "agent", a.Name(), "err", err)
	}
}

// adoptFrozen ends a freeze that the patrol of an earlier polisd has left, and reports one that a
// breaker has made.
func (m *Manager) adoptFrozen(ctx context.Context, a *Agent, sh Shim, f *api.Frozen) {
	switch {
	case f == nil:
	case f.By == api.FrozenByPatrol:
		m.Log.Warn("agent was left frozen by the patrol of an earlier polisd, and is thawed", "agent", a.Name(), "since", f.At)
		m.thawPatrol(ctx, a, sh)
	case f.By == api.FrozenByBudget: // its question is among the approvals
	case m.Froze != nil:
		m.Froze(a, f)
	}
}

// Thaw lets the processes of a frozen agent continue, for a person.
func (m *Manager) Thaw(ctx context.Context, by, name string) (api.Agent, error) {
	a, err := m.find(ctx, name)
	if err != nil {
		return api.Agent{}, err
	}
	defer a.op.Unlock()
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if !up {
		return api.Agent{}, api.Errorf(api.CodeBadState, "agent %s is not frozen: it does not run", name).WithHint("polisctl agents start %s", name)
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return api.Agent{}, err
	}
	if st.Frozen == nil {
		return api.Agent{}, api.Errorf(api.CodeBadState, "agent %s is not frozen", name).WithHint("polisctl agents list shows what agents wait for")
	}
	if err := sh.Thaw(ctx, wire.ThawRequest{}); err != nil {
		return api.Agent{}, err
	}
	if m.Froze != nil {
		m.Froze(a, nil)
	}
	m.Log.Info("agent thawed", "agent", name, "by", by)
	return m.live(ctx, a), nil
}

// frozeEvent handles the report of a shim that its agent was frozen, or thawed.
func (m *Manager) frozeEvent(ctx context.Context, sh Shim, a *Agent) {
	st, err := sh.Status(ctx)
	if err != nil || m.Froze == nil {
		return // the next adoption reads it
	}
	if st.Frozen == nil || st.Frozen.By == api.FrozenByBreaker {
		m.Froze(a, st.Frozen)
	}
}

// FrozenText says what a breaker did, for people.
func FrozenText(f api.Frozen) string {
	if t := f.Trip; t != nil {
		return fmt.Sprintf("breaker %s: %d in %.0f s, %d are allowed in a minute", t.Breaker, t.Count, t.Seconds, t.Limit)
	}
	return f.Reason
}
