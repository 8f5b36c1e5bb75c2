package shim

import (
	"context"

	"polis/daemon/api"
)

// watchActivity starts the watchers that poll while the agent runs: for new listeners, forks that
// its process limit refused, memory that the kernel reclaims or that the agent asks for, and
// names that became shared.
func (s *Shim) watchActivity() error {
	group := s.sandbox.Group()
	var active, memory, names <-chan struct{} // nil: the process limit is polled once a second
	if s.ns != nil {
		meter, err := group.Meter()
		if err != nil {
			return api.Errorf(api.CodeCgroupFailed, "watch the sandbox: %w", err)
		}
		s.onClose("meter", func(context.Context) error { return meter.Close() })
		s.activity = newActivity(meter)
		active, memory, names = s.activity.pids, s.activity.memory, s.activity.names
		s.group.Go(func() error { s.watchListeners(); return nil })
	}
	s.group.Go(func() error { s.watchPressure(memory); return nil })
	s.beginFollowing()
	s.askMemory(s.settings().MemoryAsk, s.settings().MemoryBytes)
	if s.views.paths != nil {
		s.group.Go(func() error {
			for paced(names, sharedEvery, s.sandbox.Done(), s.ctx.Done()) {
				s.followShared()
			}
			return nil
		})
	}
	forks, err := group.WatchPids(s.ctx, active)
	if err != nil {
		return api.Errorf(api.CodeCgroupFailed, "watch the sandbox: %w", err)
	}
	s.group.Go(func() error { s.watchPids(forks); return nil })
	return nil
}

func (s *Shim) watchOOM() {
	for {
		select {
		case e, ok := <-s.sandbox.OOM():
			if !ok {
				s.watcherEnded("out-of-memory kills")
				return
			}
			s.killed(e)
		case <-s.ctx.Done():
			return
		}
	}
}

// watcherEnded logs that a watcher ended while the agent runs.
func (s *Shim) watcherEnded(what string) {
	select {
	case <-s.ctx.Done():
	case <-s.sandbox.Done():
	default:
		s.Log.Error("watcher of the shim ended", "what", what)
		s.events.Publish(api.Event{Type: api.EventShim, Agent: s.Spec.Agent, Message: "the shim of agent " + s.Spec.Agent + " does not see " + what + " any more; polisctl agents stop and start mend that"})
	}
}
