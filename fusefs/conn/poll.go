package conn

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// poll is poll(2), called again after a signal: it returns EINTR if one is pending, also without a
// wait, and the Go runtime sends SIGURG to its threads.
func poll(fd int, events int16, wait time.Duration) (revents int16, err error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for end := time.Now().Add(wait); ; {
		_, err := unix.Poll(fds, int(max(0, time.Until(end)).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return fds[0].Revents, err
		}
	}
}

// open opens a file of the connection's own mount, also if a signal interrupts its request.
func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
