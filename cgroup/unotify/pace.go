package unotify

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// burst answers are given at once, and one more every interval. Who is refused
	// waits for the answer, so that a program that calls in a loop is slowed down
	// and does not keep the supervisor, whose time nobody charges it for, busy.
	burst    = 1024
	interval = 200 * time.Microsecond
	// nap is the shortest rest: many answers are given after each.
	nap = 2 * time.Millisecond
)

// pace is a bucket of answers.
type pace struct {
	now    func() time.Time
	left   int
	filled time.Time
}

// spend takes an answer out of the bucket.
func (p *pace) spend() {
	p.fill()
	p.left--
}

func (p *pace) fill() {
	now := p.now()
	if p.filled.IsZero() {
		p.left, p.filled = burst, now
	}
	if n := int(now.Sub(p.filled) / interval); n > 0 {
		p.left = min(burst, p.left+n)
		p.filled = p.filled.Add(time.Duration(n) * interval)
	}
}

// due is how long to rest before the next answer.
func (p *pace) due() time.Duration {
	if p.left > 0 || p.filled.IsZero() {
		return 0
	}
	return max(nap, time.Duration(1-p.left)*interval)
}

// rest waits, if too many answers were given, until there may be more.
func (s *Supervisor) rest() error {
	wait := s.pace.due()
	if wait == 0 {
		return nil
	}
	err := s.wait(wait)
	s.pace.fill()
	return err
}

// wait waits for a time, or for Stop.
func (s *Supervisor) wait(t time.Duration) error {
	timeout := unix.NsecToTimespec(int64(t))
	_, err := unix.Ppoll([]unix.PollFd{{Fd: int32(s.stop), Events: unix.POLLIN}}, &timeout, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("ppoll", err)
	}
	return nil
}
