package launch

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"polis/daemon/api"
	"polis/daemon/host/firewall"
	"polis/daemon/host/isolation"
	"polis/netbridge"
)

const (
	// A test follows a change of others' rules by forwardSettle, because a firewall makes many, and the one before by
	// forwardEvery.
	forwardSettle = 300 * time.Millisecond
	forwardEvery  = 3 * time.Second
	// Tables of iptables-legacy change without a notification: forwardLegacy is how often packets are tested
	// there, and forwardBlocked while they are dropped.
	forwardLegacy  = time.Minute
	forwardBlocked = 15 * time.Second
	// forwardTime bounds one test.
	forwardTime = 20 * time.Second
)

// forwarding tests by packets whether those of agents leave the host: at the start, and when the rules of another
// program have changed.
type forwarding struct {
	s    *Shims
	wake chan struct{}
	// docker: rules are kept in Docker's chain. It belongs to run.
	docker bool

	state firewall.State
}

func newForwarding(s *Shims) *forwarding { return &forwarding{s: s, wake: make(chan struct{}, 1)} }

// changed asks for a test. It does not block.
func (f *forwarding) changed() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run tests until ctx ends, and removes polis' rules from others' chains when the daemon stops with its network.
func (f *forwarding) run(ctx context.Context) {
	for {
		f.test(ctx)
		next := f.again()
		t := time.NewTimer(next)
		if next == 0 {
			t.Stop()
		}
		sleep(ctx, forwardEvery)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-f.wake:
			t.Stop()
			sleep(ctx, forwardSettle)
		case <-t.C:
		}
	}
}

// again is when a test is due without a notification; 0: never.
func (f *forwarding) again() time.Duration {
	switch {
	case f.state.Blocked(time.Time{}) != nil:
		return forwardBlocked
	case netbridge.HasLegacy():
		return forwardLegacy
	}
	return 0
}

// test tests once, and publishes what is new.
func (f *forwarding) test(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	f.dockerUser(ctx, f.s.Config().Network.DockerUser)
	found, err := f.s.Bridge.TryForwarding(ctx)
	if err != nil {
		if ctx.Err() == nil {
			f.s.Log.Warn("unknown whether packets of agents leave this host", "op", "net.forward", "err", err)
		}
		return
	}
	blocked := firewall.Blocked(found)
	began, ended := f.state.Note(blocked, time.Now())
	f.publish(began, blocked, ended)
	if began {
		f.note(ctx)
	}
}

// note has the shims of all agents record who drops their packets.
func (f *forwarding) note(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(gatesAtOnce)
	for name, status := range f.s.Agents().Statuses("") {
		if status == api.StatusIdle || status == api.StatusRunning {
			g.Go(func() error { f.s.NoteBlocked(ctx, name); return nil })
		}
	}
	_ = g.Wait() //nolint:errcheck // no function returns an error
}

// NoteBlocked has the shim of an agent record who drops its packets, if another firewall does.
func (s *Shims) NoteBlocked(ctx context.Context, name string) {
	e := s.Blocked(time.Time{})
	if e == nil {
		return
	}
	if err := s.Agents().NoteBlocked(ctx, name, e); err != nil && ctx.Err() == nil {
		s.Log.Debug("agent has no record of who drops its packets", "agent", name, "op", "net.forward", "err", err)
	}
}

// dockerUser keeps the rules in Docker's chain, or removes those that this polisd keeps there.
func (f *forwarding) dockerUser(ctx context.Context, on bool) {
	u := firewall.DockerUser{Bridge: f.s.Bridge.Name()}
	if !on {
		if f.docker {
			f.docker = false
			if err := u.Remove(ctx); err != nil {
				f.s.Log.Error("rules not removed from Docker's chain", "op", "net.docker", "err", err)
			}
		}
		return
	}
	f.docker = true
	changed, err := u.Ensure(ctx)
	if err != nil {
		f.s.Log.Error("rules not added to Docker's chain", "op", "net.docker", "err", err)
	} else if changed {
		f.s.Log.Info("rules added to Docker's chain DOCKER-USER", "op", "net.docker", "link", u.Bridge)
	}
}

// publish publishes that packets are dropped, or by another firewall than before, or that they pass again.
func (f *forwarding) publish(began bool, blocked, ended *api.Error) {
	if began {
		f.s.Log.Warn("packets of agents are dropped by another firewall", "op", "net.forward", "reason", blocked.Message, "hint", blocked.Hint)
		f.s.Publish(api.Event{Type: api.EventBlocked, Code: api.CodeNetworkBlocked, Message: blocked.Message + ": " + blocked.Hint,
			Data: map[string]any{"reason": blocked.Message, "hint": blocked.Hint}})
	}
	if ended != nil {
		f.s.Log.Info("packets of agents pass again", "op", "net.forward")
		f.s.Publish(api.Event{Type: api.EventBlocked, Message: "packets of agents to the network outside pass again", Data: map[string]any{"reason": ended.Message}})
	}
}

// Blocked is who has dropped packets of agents since then.
func (s *Shims) Blocked(since time.Time) *api.Error {
	if s.Lacks(isolation.Network) {
		return nil
	}
	return s.forward.state.Blocked(since)
}

// LeaveDocker removes polis' rules from Docker's chain, with the network that they are for.
func (s *Shims) LeaveDocker(ctx context.Context) error {
	if !s.dockerUser && !s.Config().Network.DockerUser {
		return nil
	}
	return firewall.DockerUser{Bridge: s.Bridge.Name()}.Remove(ctx)
}

// TestForwarding has it tested soon whether packets of agents leave the host. It does not block.
func (s *Shims) TestForwarding() { s.forward.changed() }
