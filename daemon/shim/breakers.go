package shim

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/fusefs"
	"polis/fusefs/ignore"
	"polis/fusefs/view"
)

const (
	// A disk does not take more than fastest bytes in a second: so long the next reading of the
	// bytes written can wait. It comes within writtenMost, and not sooner than writtenLeast.
	fastest      = 4 << 30
	writtenLeast = 20 * time.Millisecond
	writtenMost  = time.Second
)

// openBreakers begins to count what the agent does.
func (s *Shim) openBreakers(tracked *ignore.Matcher) {
	s.breakers.Now, s.breakers.Trip = time.Now, s.tripped
	s.tracked = tracked
	for _, p := range []string{"git", "/usr/lib/git-core/git", "/usr/libexec/git-core/git"} {
		if at, err := exec.LookPath(p); err == nil {
			if fi, err := os.Stat(at); err == nil {
				s.gitPrograms = append(s.gitPrograms, fi)
			}
		}
	}
	s.newBreakers = make(chan struct{}, 1)
	s.setBreakers(s.Spec.Breakers)
}

// setBreakers sets the limits.
func (s *Shim) setBreakers(l api.Breakers) {
	s.breakers.SetLimits(l)
	s.breakersOn()
}

// breakersOn wakes watchWritten: a breaker that was off, or had tripped, may count again.
func (s *Shim) breakersOn() {
	select {
	case s.newBreakers <- struct{}{}:
	default:
	}
}

// refusedByView counts a refusal of the view by its rules.
func (s *Shim) refusedByView(d view.Denial) {
	if d.Foreign {
		return
	}
	s.noteRefused(d)
	s.breakers.Denied(1, d.Op+" of "+d.Path, d.Pid)
}

// refusedElsewhere counts a refusal of another gate.
func (s *Shim) refusedElsewhere(d view.Denial) {
	switch api.Code(d.Code) {
	case api.CodeEgressDenied, api.CodeSyscallDenied, api.CodeUndeclaredRead, api.CodeUndeclaredWrite, api.CodeNotApproved:
		s.breakers.Denied(int64(max(d.Count, 1)), d.Op+" of "+d.Path, d.Pid)
	}
}

// deleting counts the deletion of a file that git tracks. What git itself deletes, such as in a
// checkout of another branch, is in its history and does not count.
func (s *Shim) deleting(c fusefs.Caller, path string) {
	if !s.breakers.CountsDeletions() || s.tracked.Ignored(path, false) || s.tracked.Untracked(path) || s.isGit(c.Pid) {
		return
	}
	s.breakers.Deleted(path, c.Pid)
}

// deletingIf is deleting for a project that git tracks, else nil.
func (s *Shim) deletingIf(tracks bool) func(c fusefs.Caller, path string) {
	if !tracks {
		return nil
	}
	return s.deleting
}

// isGit reports whether a process runs the machine's git. The process waits for its call.
func (s *Shim) isGit(pid uint32) bool {
	fi, err := os.Stat("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/exe")
	if err != nil {
		return false
	}
	for _, g := range s.gitPrograms {
		if os.SameFile(fi, g) {
			return true
		}
	}
	return false
}

// tripped freezes the agent. It is called in the operation that passed the limit, before that is
// answered: the order to freeze is given at once, and the rest is done beside it.
func (s *Shim) tripped(t api.Trip, pids []uint32) {
	began := time.Now()
	f := &s.freezer
	ordered := f.mu.TryLock() // the patrol may be about to freeze: see finishTrip
	if ordered {
		ordered = s.orderTrip() == nil
		f.mu.Unlock()
	}
	t.DecidedMicros = time.Since(began).Microseconds()
	s.group.Go(func() error { s.finishTrip(t, pids, began, ordered); return nil })
}

// orderTrip orders the freeze. The operations that have begun are completed: one that is held back
// would keep its directory locked, for people too. The freezer's lock is held.
func (s *Shim) orderTrip() error {
	if s.sandbox == nil {
		return fmt.Errorf("agent %s has no sandbox yet", s.Spec.Agent)
	}
	return s.sandbox.Group().Freeze(true)
}

// finishTrip records the freeze and reports it.
func (s *Shim) finishTrip(t api.Trip, pids []uint32, began time.Time, ordered bool) {
	f := &s.freezer
	f.mu.Lock()
	if !ordered {
		if err := s.orderTrip(); err != nil {
			f.mu.Unlock()
			s.Log.Error("agent not frozen by a breaker", "breaker", t.Breaker, "err", err)
			s.breakers.Reset()
			s.breakersOn()
			return
		}
		t.DecidedMicros = time.Since(began).Microseconds()
	}
	if f.timer != nil { // a freeze of the patrol: this one stays
		f.timer.Stop()
		f.timer = nil
	}
	f.frozen = &api.Frozen{By: api.FrozenByBreaker, At: began.UTC()}
	ctx, cancel := context.WithTimeout(s.ctx, freezeTime)
	err := s.sandbox.Group().AwaitFrozen(ctx, waitsInView)
	cancel()
	if t.FrozenMicros = time.Since(began).Microseconds(); err != nil {
		t.FrozenMicros = -1
		s.Log.Warn("process not frozen yet", "err", err)
	}
	for _, pid := range pids {
		t.Processes = append(t.Processes, strings.TrimSpace(fmt.Sprintf("%d %s", pid, comm(int(pid)))))
	}
	f.frozen.Trip = &t
	f.frozen.Reason = fmt.Sprintf("breaker %s: %d in %.0f s, %d are allowed", t.Breaker, t.Count, t.Seconds, t.Limit)
	frozen := *f.frozen
	f.mu.Unlock()
	s.Log.Warn("agent frozen by a breaker", "breaker", t.Breaker, "count", t.Count, "limit", t.Limit, "decided_us", t.DecidedMicros, "frozen_us", t.FrozenMicros)
	s.events.Publish(api.Event{Type: api.EventFrozen, Agent: s.Spec.Agent, Message: fmt.Sprintf("agent %s was frozen: %s", s.Spec.Agent, frozen.Reason),
		Data: map[string]any{"frozen": frozen}})
}

// watchWritten reads how much the agent's processes have written, while its breaker is on: the
// sooner the nearer the limit is.
func (s *Shim) watchWritten(ctx context.Context) {
	var last int64
	for first := true; ; {
		left, on := s.breakers.Left()
		if !on { // no timer: an idle shim sleeps
			first = true
			select {
			case <-ctx.Done():
				return
			case <-s.newBreakers:
			}
			continue
		}
		now := s.written()
		if !first {
			s.breakers.Wrote(now - last)
		}
		first, last = false, now
		t := time.NewTimer(min(max(time.Duration(float64(left)/fastest*float64(time.Second)), writtenLeast), writtenMost))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// written is what the living processes, and the dead ones whose parents live, have written to disks:
// write_bytes of proc_pid_io(5). A process that ends takes its count to its parent.
func (s *Shim) written() (n int64) {
	pids, err := s.sandbox.Pids()
	if err != nil {
		return 0
	}
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
		if err != nil {
			continue // it has ended
		}
		if _, rest, ok := strings.Cut(string(b), "\nwrite_bytes: "); ok {
			text, _, _ := strings.Cut(rest, "\n")
			if k, err := strconv.ParseInt(text, 10, 64); err == nil {
				n += k
			}
		}
	}
	return n
}
