package unotify

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// burst answers are given at once, and one more every interval. A refused process waits for
	// the answer, so that a program that calls in a loop is slowed down and does not keep the
	// supervisor busy, whose time is charged to no agent.
	burst    = 1024
	interval = 200 * time.Microsecond
	// nap is the shortest pause: many answers are given after each.
	nap = 2 * time.Millisecond
)

// pace is a token bucket of answers.
type pace struct {
	now    func() time.Time
	left   int
	filled time.Time
}

// spend takes a token.
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

// due is the pause until the next answer.
func (p *pace) due() time.Duration {
	if p.left > 0 || p.filled.IsZero() {
		return 0
	}
	return max(nap, time.Duration(1-p.left)*interval)
}

// rest waits until the bucket has a token.
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
