package leftover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxProcs bounds the processes that are read, maxListed the processes that are listed.
	maxProcs  = 4096
	maxListed = 64
	// rounds is how often End searches for processes that were started while it ended the others.
	rounds = 3
	// killTime bounds the wait for the end of a killed process.
	killTime = 2 * time.Second
)

// Process is a process that was left running.
type Process struct {
	PID     int // in the caller's pid namespace
	Name    string
	Command string
	Memory  int64 // resident, in bytes
	Inodes  []uint32
}

// Tracker records which processes were left. The caller must set Procs.
type Tracker struct {
	// Procs lists the processes of the agent, without its init.
	Procs func() ([]int, error)
	Root  string // proc(5); "/proc" if empty

	mu    sync.Mutex
	guest seeds // processes of a person's shells
	left  seeds
}

// seeds are processes, by their numbers.
type seeds map[int]seed

// seed identifies a process by its start. task is that of the command that left it running, "" if that was no task. own
// is true for a command of polisd.
type seed struct {
	start uint64
	task  string
	own   bool
}

func (t *Tracker) root() string { return cmp.Or(t.Root, "/proc") }

// Guest records the first process of a person's shell or command, or, with own, of a command that polisd runs for the
// agent. Neither is left running by the agent.
func (t *Tracker) Guest(pid int, own bool) {
	p, ok := readProcess(t.root(), pid)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.guest == nil {
		t.guest = seeds{}
	}
	if ok && len(t.guest) < maxProcs {
		t.guest[pid] = seed{start: p.start, own: own}
	}
}

// Now returns the least start time of a process that begins now, for Since.
func Now() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("clock_gettime: %w", err)
	}
	return uint64(ts.Nano()) / uint64(time.Second/hertz), nil
}

// hertz is USER_HZ, the unit of times in /proc. It is 100 on all supported architectures.
const hertz = 100

// Ended records the leftovers of a command that began at since and has ended. task is the task that it was, or "".
func (t *Tracker) Ended(since uint64, task string) error {
	all, err := t.read()
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	guests := closure(all, t.guest)
	for pid := range t.guest {
		if _, ok := guests[pid]; !ok {
			delete(t.guest, pid) // it has ended
		}
	}
	earlier := closure(all, t.left) // also what they started meanwhile
	t.left = seeds{}
	for pid, p := range all {
		if was, ok := earlier[pid]; ok {
			t.left[pid] = seed{start: p.start, task: was.task}
		} else if _, guest := guests[pid]; !guest && p.start >= since {
			t.left[pid] = seed{start: p.start, task: task}
		}
	}
	return nil
}

// read returns the agent's processes.
func (t *Tracker) read() (map[int]process, error) {
	pids, err := t.Procs()
	if err != nil {
		return nil, fmt.Errorf("list the agent's processes: %w", err)
	}
	return t.readThose(pids[:min(len(pids), maxProcs)]), nil
}

func (t *Tracker) readThose(pids []int) map[int]process {
	all := map[int]process{}
	for _, pid := range pids {
		if p, ok := readProcess(t.root(), pid); ok {
			all[pid] = p
		}
	}
	return all
}

// closure returns the processes of all that are in seed, that descend from one in seed, or that are
// in a session which one of these leads. Each has the task of the one that it is in for.
func closure(all map[int]process, from seeds) map[int]process {
	in := map[int]process{}
	for pid, s := range from {
		if p, ok := all[pid]; ok && p.start == s.start {
			p.task = s.task
			in[pid] = p
		}
	}
	for more := len(in) > 0; more; {
		more = false
		for pid, p := range all {
			if _, ok := in[pid]; ok {
				continue
			}
			of, ok := in[p.parent]
			if !ok {
				of, ok = in[p.session]
			}
			if ok {
				p.task = of.task
				in[pid], more = p, true
			}
		}
	}
	return in
}

// alive returns the leftovers that are still alive, and forgets the others.
func (t *Tracker) alive() (map[int]process, error) {
	if !t.Any() {
		return nil, nil
	}
	all, err := t.read()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	in := closure(all, t.left)
	t.left = seeds{}
	for pid, p := range in {
		t.left[pid] = seed{start: p.start, task: p.task}
	}
	return in, nil
}

// Any reports whether there may be leftovers.
func (t *Tracker) Any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.left) > 0
}

// List returns the leftovers, the largest first.
func (t *Tracker) List() ([]Process, error) {
	in, err := t.alive()
	if err != nil {
		return nil, err
	}
	out := make([]Process, 0, len(in))
	for pid, p := range in {
		out = append(out, Process{PID: pid, Name: p.comm, Memory: memory(t.root(), pid)})
	}
	slices.SortFunc(out, func(a, b Process) int { return cmp.Or(cmp.Compare(b.Memory, a.Memory), a.PID-b.PID) })
	out = out[:min(len(out), maxListed)]
	for i := range out {
		p := &out[i]
		p.Command = command(t.root(), p.PID)
		sockets(t.root(), p.PID, func(inode uint32) { p.Inodes = append(p.Inodes, inode) })
	}
	return out, nil
}

// End ends the leftovers: with TERM, and with KILL after the grace period. It returns how many
// there were.
func (t *Tracker) End(ctx context.Context, grace time.Duration) (n int, err error) {
	for range rounds {
		in, err := t.alive()
		if err != nil || len(in) == 0 {
			return n, err
		}
		n += len(in)
		if err := t.end(ctx, in, grace); err != nil {
			return n, err
		}
	}
	in, err := t.alive()
	if err == nil && len(in) > 0 {
		err = fmt.Errorf("%d processes do not end", len(in))
	}
	return n, err
}

func (t *Tracker) end(ctx context.Context, in map[int]process, grace time.Duration) error {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for pid, p := range in {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return fmt.Errorf("pidfd_open: %w", err)
		}
		// The pidfd refers to the process that has the number now. Check that it is the same
		// process.
		if now, ok := readProcess(t.root(), pid); !ok || now.start != p.start {
			_ = unix.Close(fd)
			continue
		}
		fds = append(fds, fd)
	}
	for _, step := range []struct {
		sig  unix.Signal
		wait time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, killTime}} {
		for _, fd := range fds {
			if err := unix.PidfdSendSignal(fd, step.sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("pidfd_send_signal: %w", err)
			}
		}
		if gone(ctx, fds, step.wait) {
			return nil
		}
	}
	return ctx.Err()
}

// gone waits until all processes have ended, for a bounded time.
func gone(ctx context.Context, fds []int, wait time.Duration) bool {
	for deadline := time.Now().Add(wait); ; {
		living := false
		for _, fd := range fds {
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(p, 0); err != nil || n == 0 {
				living = true
			}
		}
		if !living || !time.Now().Before(deadline) {
			return !living
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}
