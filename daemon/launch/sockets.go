package launch

import (
	"context"
	"errors"
	"os"
	"time"

	"polis/daemon/host/launcher"
	"polis/daemon/store/layout"
)

// socketTick is how often it is checked that the paths of the sockets of an agent lead to them. It costs two system
// calls for each agent. inotify(7) would use up an instance, of which a machine has few.
const socketTick = time.Second

// keepSockets has shims check their sockets when one is missing. It runs until ctx ends.
func (s *Shims) keepSockets(ctx context.Context) {
	for ctx.Err() == nil {
		for name := range s.Agents().Mounted() {
			if dir := s.Run.Agent(name); noSocket(layout.ShimSocket(dir)) || noSocket(layout.InsideSocket(dir)) {
				s.remindOfSocket(name)
			}
		}
		sleep(ctx, socketTick)
	}
}

// noSocket reports whether no socket has the name.
func noSocket(path string) bool {
	fi, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist) || err == nil && fi.Mode().Type() != os.ModeSocket
}

// remindTime bounds finding the process of a shim.
const remindTime = 5 * time.Second

// remindOfSocket has the shim of an agent check its sockets, at most once a second: polisd does not find one. The signal
// is the one that continues a stopped process, so it does nothing to a shim of an earlier polis.
func (s *Shims) remindOfSocket(name string) {
	if age, ok := s.reminders.age(name); ok && age < socketTick {
		return
	}
	s.reminders.note(name)
	ctx, cancel := context.WithTimeout(context.Background(), remindTime)
	defer cancel()
	p, err := s.launcher.Process(ctx, name, s.Run.Agent(name))
	if err == nil {
		err = p.Continue()
	}
	if err != nil && !errors.Is(err, launcher.ErrNoProcess) {
		s.Log.Warn("shim without a socket not reminded", "agent", name, "op", "socket.keep", "err", err)
	}
}
