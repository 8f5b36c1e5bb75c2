package shim

import (
	"context"

	"polis/daemon/api"
)

// watchActivity starts the watchers that poll the kernel for the agent's new listeners, and for
// forks that its process limit refused.
func (s *Shim) watchActivity() error {
	group := s.sandbox.Group()
	var active <-chan struct{} // nil: the process limit is polled once a second
	if s.ns != nil {
		meter, err := group.Meter()
		if err != nil {
			return api.Errorf(api.CodeCgroupFailed, "watch the sandbox: %w", err)
		}
		s.onClose("meter", func(context.Context) error { return meter.Close() })
		s.activity = newActivity(meter)
		active = s.activity.pids
		s.group.Go(func() error { s.watchListeners(); return nil })
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
