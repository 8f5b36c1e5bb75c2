package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"polis/cgroup/unotify"
)

// RefusedCall is a denied system call that is audited. Its arguments are those of registers: the
// memory of the process is not read.
type RefusedCall struct {
	Time    time.Time
	Pid     int    // of the process, as the host counts; 0 if unknown
	Program string // the process's name, at most 15 bytes; "" if unknown
	Call    string // such as "unshare"
	Wanted  string // its purpose, such as "CLONE_NEWUSER"; "" if the registers do not show it
	Kind    Kind
}

// Refused reports audited calls, if Config.ReportDenied is set. The channel is closed when the
// sandbox is destroyed. While it is full, a call waits for its answer, as long as refusedWait; then it and those after it are
// left out until the receiver continues, which Missed counts.
func (s *Sandbox) Refused() <-chan RefusedCall { return s.refusals }

// Missed returns how many calls were dropped since it was called last.
func (s *Sandbox) Missed() int { return int(s.missed.Swap(0)) }

// refusalsBuffer is how many denied calls wait for the receiver.
const refusalsBuffer = 256

// supervisorDir is the directory of the socket that takes the listeners of a sandbox's filters.
// No id has a colon.
func supervisorDir(stateDir, id string) string { return filepath.Join(stateDir, "calls:"+id) }

// openSupervisor starts the supervisor that refuses calls and returns the path of its socket.
// Without one the kernel denies them, without an event.
func (s *Sandbox) openSupervisor() string {
	if !s.cfg.ReportDenied {
		close(s.refusals)
		return ""
	}
	d, err := unotify.Open(supervisorDir(s.cfg.StateDir, s.cfg.ID))
	if err != nil {
		s.cfg.Log.Warn("denied system calls are not audited", "op", "sandbox.create", "err", err)
		close(s.refusals)
		return ""
	}
	w := &witness{now: time.Now, seen: map[int]sighting{}}
	d.Log, d.Identify, d.Refused = s.cfg.Log, w.who, s.refusedCall
	s.supervisor = d
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer close(s.refusals)
		if err := d.Run(); err != nil {
			s.cfg.Log.Error("denied system calls are not audited any more", "op", "sandbox.calls", "err", err)
		}
		if err := d.Close(); err != nil {
			s.cfg.Log.Warn("supervisor of refused calls not closed", "op", "sandbox.calls", "err", err)
		}
	}()
	return d.Path()
}

// refusedWait bounds how long a call waits for the receiver. Only the callers of the agent's refused calls wait.
const refusedWait = time.Second

// refusedCall sends a call to the receiver.
func (s *Sandbox) refusedCall(c unotify.Call, who unotify.Caller) {
	name := callName(c.Nr)
	call := RefusedCall{Time: time.Now(), Pid: who.Pid, Program: who.Program, Call: name, Wanted: describe(name, c.Args), Kind: kindOf(name)}
	select {
	case s.refusals <- call:
		s.stalled.Store(false)
		return
	default:
	}
	if !s.stalled.Load() {
		t := time.NewTimer(refusedWait)
		defer t.Stop()
		select {
		case s.refusals <- call:
			return
		case <-t.C:
			s.stalled.Store(true)
		}
	}
	s.missed.Add(1)
}

const (
	// sightingTime is how long the identity of a thread is cached, so that a flood of calls does
	// not read /proc for each.
	sightingTime = 100 * time.Millisecond
	maxSightings = 64
)

type sighting struct {
	who unotify.Caller
	at  time.Time
}

// witness identifies the processes that make calls. It is for one goroutine.
type witness struct {
	now  func() time.Time
	seen map[int]sighting
}

func (w *witness) who(thread int) unotify.Caller {
	now := w.now()
	if s, ok := w.seen[thread]; ok && now.Sub(s.at) < sightingTime {
		return s.who
	}
	who := identify(thread)
	if len(w.seen) >= maxSightings {
		clear(w.seen)
	}
	w.seen[thread] = sighting{who, now}
	return who
}

// identify reads which process a thread belongs to, and its name. If the thread has just been
// killed, both are unknown.
func identify(thread int) unotify.Caller {
	if thread <= 0 {
		return unotify.Caller{} // not of our pid namespace
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(thread), "status"))
	if err != nil {
		return unotify.Caller{}
	}
	_, rest, _ := bytes.Cut(status, []byte("\nTgid:\t"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pid, err := strconv.Atoi(string(line))
	if err != nil {
		return unotify.Caller{Pid: thread}
	}
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return unotify.Caller{Pid: pid}
	}
	return unotify.Caller{Pid: pid, Program: string(bytes.TrimSuffix(name, []byte("\n")))}
}
