package daemon

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/agent"
	"polis/daemon/layout"
)

// Beat returns the time since the last heartbeat of the agent's shim. It returns false if the shim
// writes none, as earlier versions do.
func (w *shimWatch) Beat(a *agent.Agent) (age time.Duration, ok bool) {
	fd, err := unix.Open(layout.Heartbeat(w.run.Agent(a.Name())), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var b [8]byte
	if n, err := unix.Pread(fd, b[:], 0); err != nil || n != len(b) {
		return 0, false
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, false
	}
	return time.Duration(now.Nano() - int64(binary.LittleEndian.Uint64(b[:]))), true
}
