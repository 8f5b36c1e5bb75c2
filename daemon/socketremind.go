package daemon

import (
	"context"
	"errors"
	"time"

	"polis/daemon/host/launcher"
)

// remindTime bounds finding the process of a shim.
const remindTime = 5 * time.Second

// remindOfSocket has the shim of an agent check its sockets, at most once a second: polisd does not find one. The signal
// is the one that continues a stopped process, so it does nothing to a shim of an earlier polis.
func (s *shims) remindOfSocket(name string) {
	if age, ok := s.reminders.age(name); ok && age < socketTick {
		return
	}
	s.reminders.note(name)
	ctx, cancel := context.WithTimeout(context.Background(), remindTime)
	defer cancel()
	p, err := s.launcher.Process(ctx, name, s.run.Agent(name))
	if err == nil {
		err = p.Continue()
	}
	if err != nil && !errors.Is(err, launcher.ErrNoProcess) {
		s.log.Warn("shim without a socket not reminded", "agent", name, "op", "socket.keep", "err", err)
	}
}
