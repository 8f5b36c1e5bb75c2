package sandbox

import (
	"context"
	"fmt"
	"time"

	"polis/cgroup"
)

// OOMEvent: the kernel killed processes of the sandbox because it was at its memory limit.
type OOMEvent struct {
	Time  time.Time
	Pid   int    // as the host counts; 0 if unknown
	Comm  string // the process's name, at most 15 bytes; "" if unknown
	Bytes uint64 // memory it had; 0 if unknown
	Above bool   // the limit is not the sandbox's own; see [cgroup.OOM]
	Count uint64 // kills since the sandbox was made, this one included; see [cgroup.OOM]
}

// How close to an event a process must have died of SIGKILL to be its victim.
const nearby = 2 * time.Second

// OOM reports kills for memory. The channel is closed when the sandbox is destroyed or its group
// is gone. If it is full, the oldest events are dropped.
func (s *Sandbox) OOM() <-chan OOMEvent { return s.ooms }

func (s *Sandbox) watchMemory() error {
	ctx, cancel := context.WithCancel(context.Background())
	events, err := s.group.WatchOOM(ctx)
	if err != nil {
		cancel()
		return fmt.Errorf("create sandbox: %w: %w", ErrCgroup, err)
	}
	s.stopWatch = cancel
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer close(s.ooms)
		for e := range events {
			s.report(e)
		}
	}()
	return nil
}

// report names the victim and sends the event without blocking.
func (s *Sandbox) report(e cgroup.OOM) {
	ev := OOMEvent{Time: e.Time, Pid: e.Pid, Comm: e.Comm, Bytes: e.Bytes, Above: e.Above, Count: e.Count}
	if ev.Pid == 0 {
		ev.Pid, ev.Comm = s.guess(e.Time)
	}
	s.cfg.Log.Warn("killed for memory", "op", "sandbox.oom", "pid", ev.Pid, "comm", ev.Comm, "count", ev.Count)
	for {
		select {
		case s.ooms <- ev:
			return
		default:
		}
		select {
		case <-s.ooms:
		default:
		}
	}
}

// guess is for hosts whose kernel log cannot be read: a process of ours that
// just died of SIGKILL.
func (s *Sandbox) guess(at time.Time) (pid int, comm string) {
	deadline := time.NewTimer(100 * time.Millisecond) // the exit may be seen after the event
	defer deadline.Stop()
	for {
		s.mu.Lock()
		for p, k := range s.killed {
			if at.Sub(k.at).Abs() < nearby {
				pid, comm = p, k.comm
			}
		}
		s.mu.Unlock()
		if pid != 0 {
			return pid, comm
		}
		select {
		case <-deadline.C:
			return 0, ""
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// forgetKilled drops processes that died too long ago to be a victim. The caller holds mu.
func (s *Sandbox) forgetKilled() {
	for pid, k := range s.killed {
		if time.Since(k.at) > nearby {
			delete(s.killed, pid)
		}
	}
}
