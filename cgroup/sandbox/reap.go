package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where processes have no namespace, what is orphaned goes to the machine's
// process 1. In a container that need not be one that reaps: what ends then
// stays in the process table, and in the sandbox's limit of processes, for ever.
// So the maker of the sandbox takes the orphans for its own (prctl(2),
// PR_SET_CHILD_SUBREAPER) and reaps them.
//
// It has other children as well, and who waits for one of those must find it:
// only what came out of the sandbox and nobody waits for is reaped. All that is
// started inside leads a session of its own, and the maker's own children are in
// the maker's.

const (
	// reapAgain is when the reaper looks again after it met a child of others, which
	// they are about to reap, and reapRarely when it goes on meeting one.
	reapAgain  = 20 * time.Millisecond
	reapRarely = 2 * time.Second
	// reapLast is how often it looks again when the sandbox has ended.
	reapLast = 25
)

// startReaper makes the program the parent of the sandbox's orphans until ctx
// ends, when nothing of the sandbox is left.
func (s *Sandbox) startReaper(ctx context.Context) error {
	session, err := unix.Getsid(0)
	if err != nil {
		return os.NewSyscallError("getsid", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	s.work.Go(func() {
		defer func() {
			if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
				s.cfg.Log.Warn("orphans still come here", "op", "sandbox.reap", "err", err)
			}
		}()
		defer signal.Stop(ended)
		wait := reapAgain
		again := time.NewTimer(0)
		defer again.Stop()
		for {
			select {
			case <-ended:
			case <-again.C:
			case <-ctx.Done():
				for range reapLast {
					if s.reap(session) == nil {
						return
					}
					<-time.After(reapAgain)
				}
				return
			}
			switch err := s.reap(session); {
			case errors.Is(err, errOthers):
				again.Reset(wait)
				wait = min(2*wait, reapRarely)
			case err != nil:
				s.cfg.Log.Warn("orphans are not reaped", "op", "sandbox.reap", "err", err)
			default:
				wait = reapAgain
			}
		}
	})
	return nil
}

// errOthers says that a child has ended that somebody waits for.
var errOthers = errors.New("a child of others has ended")

// reap reaps the orphans that have ended. The kernel shows one child at a time;
// where that is one of others, all children are looked at.
func (s *Sandbox) reap(session int) error {
	// What is being started is nobody's yet that could be asked.
	if !s.starts.TryLock() {
		return errOthers
	}
	defer s.starts.Unlock()
	for {
		pid, err := endedChild()
		if err != nil || pid == 0 {
			return err
		}
		if !s.orphan(pid, session) {
			break
		}
		if err := reapOne(pid); err != nil {
			return err
		}
	}
	pids, err := children()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if s.orphan(pid, session) {
			if err := reapOne(pid); err != nil {
				return err
			}
		}
	}
	return errOthers
}

// orphan says that a child came out of the sandbox and is waited for by nobody.
func (s *Sandbox) orphan(pid, session int) bool {
	of, err := unix.Getsid(pid)
	return err == nil && of != session && !s.awaited(pid)
}

// reapOne reaps a child if it has ended.
func reapOne(pid int) error {
	for {
		_, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && !errors.Is(err, unix.ECHILD):
			return fmt.Errorf("reap process %d: %w", pid, os.NewSyscallError("wait4", err))
		}
		return nil
	}
}

// children are this program's. A kernel without CONFIG_PROC_CHILDREN names none.
func children() ([]int, error) {
	const dir = "/proc/self/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, t := range threads {
		b, err := os.ReadFile(dir + t.Name() + "/children")
		if err != nil {
			continue // the thread has ended, and its children are another's
		}
		for f := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return nil, err
			}
			out = append(out, pid)
		}
	}
	return out, nil
}

// awaited says whether somebody waits for a process of the sandbox.
func (s *Sandbox) awaited(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pid == s.initPid || s.running[pid]
}

// endedChild is a child of this program that has ended, and leaves it there; 0
// if there is none.
func endedChild() (int, error) {
	// siginfo_t, of which x/sys shows only the first fields.
	var info struct {
		_   [3]int32
		_   [0]uintptr // the union is aligned as a pointer is
		pid int32
		_   [128]byte
	}
	for {
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return 0, nil
		case err != nil:
			return 0, os.NewSyscallError("waitid", err)
		}
		return int(info.pid), nil
	}
}
