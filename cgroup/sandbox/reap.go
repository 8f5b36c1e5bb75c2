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

// Where processes have no namespace, orphans become children of the machine's process 1. In a
// container that may be a program that does not reap: zombies then stay in the process table, and
// count in the sandbox's limit of processes, forever. So the creator of the sandbox adopts the
// orphans (prctl(2), PR_SET_CHILD_SUBREAPER) and reaps them.
//
// It has other children as well, and the code that waits for one of those must find it: the
// reaper takes only children that came out of the sandbox and that no Start waits for. All that
// is started inside leads a session of its own, and the creator's own children are in the
// creator's.

const (
	// reapAgain is the pause after the reaper met another's child, which its owner is about to
	// reap, and reapRarely the pause if it keeps meeting one.
	reapAgain  = 20 * time.Millisecond
	reapRarely = 2 * time.Second
	// reapLast is how often it tries again when the sandbox has ended.
	reapLast = 25
)

// startReaper makes the program the parent of the sandbox's orphans until ctx ends, when no
// process of the sandbox is left.
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

// errOthers: a child has ended that other code waits for.
var errOthers = errors.New("a child of others has ended")

// reap reaps the orphans that have ended. The kernel shows one ended child at a time; if it is
// another's, all children are checked.
func (s *Sandbox) reap(session int) error {
	// A process that is being started has no owner yet.
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

// orphan reports whether a child came out of the sandbox and no Start waits for it.
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
			continue // the thread has ended, and its children have another parent
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

// awaited reports whether a Start waits for a process of the sandbox.
func (s *Sandbox) awaited(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pid == s.initPid || s.running[pid]
}

// endedChild returns a child of this program that has ended, without reaping it; 0 if there is
// none.
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
