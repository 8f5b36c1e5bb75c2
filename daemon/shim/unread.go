package shim

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Pauses between queries of what a command has not read: the first, and the longest.
const (
	firstPause   = time.Millisecond
	longestPause = 250 * time.Millisecond
)

// awaitRead waits until the command has read its input, or has ended. On a terminal in canonical
// mode the beginning of a line counts as read: nobody can read it before Enter. If the kernel does
// not say, the input counts as read.
func (s *session) awaitRead() {
	for pause := firstPause; s.unread() > 0; pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
		case <-s.done:
			return
		}
	}
}

// unread returns how many bytes of its input the command has not read (FIONREAD, which is TIOCINQ: ioctl_tty(2) and
// pipe(7)).
func (s *session) unread() int {
	if s.tty {
		n, err := s.proc.Unread()
		if err != nil {
			return 0
		}
		return n
	}
	f, ok := s.input.(*os.File)
	if !ok {
		return 0
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		if m, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			n = m
		}
	})
	if err != nil {
		return 0
	}
	return n
}
