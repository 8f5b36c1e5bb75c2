package shim

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
)

// oomWait is how long the report of a kill may arrive after the victim's exit: the kernel logs the
// victim a little later than it counts the kill.
const oomWait = 300 * time.Millisecond

// oomState records out-of-memory kills and whether the agent's own program died of one.
type oomState struct {
	last   string    // the last kill, in words
	at     time.Time // when it was
	before uint64    // kills when the program was started
	judged bool      // the program has exited, and main records whether the kernel killed it
	main   bool
}

// kills returns how many processes of the sandbox were killed for memory.
func (s *Shim) kills() uint64 {
	n, err := s.sandbox.Group().OOMKills()
	if err != nil {
		s.Log.Debug("kills for memory not counted", "err", err)
	}
	return n
}

// beginOOM begins to count for a program that is about to start. s.mu is held.
func (s *Shim) beginOOM() { s.oom = oomState{before: s.kills()} }

// oomOfMain describes the kill that the agent's own program died of, or returns "". A program that
// exits as if it was killed, after a kill, has lost a process that it needed: a shell or a
// launcher passes on the exit status of its child. s.mu is held.
func (s *Shim) oomOfMain() string {
	if s.main == nil || !s.main.over() {
		return ""
	}
	return s.oomOfExit(s.main.code)
}

// oomOfExit is oomOfMain of a program that exited with code. s.mu is held.
func (s *Shim) oomOfExit(code int) string {
	if !s.oom.judged {
		s.oom.judged, s.oom.main = true, code == 128+int(syscall.SIGKILL) && s.kills() > s.oom.before
	}
	if !s.oom.main {
		return ""
	}
	if s.oom.last != "" {
		return s.oom.last
	}
	return fmt.Sprintf("the program of agent %s was killed: %s", s.Spec.Agent, overLimit(s.live.settings.MemoryBytes))
}

// awaitOOM waits for the report of the kill that ended a program.
func (s *Shim) awaitOOM(code int) {
	if code != 128+int(syscall.SIGKILL) {
		return
	}
	s.mu.Lock()
	known := s.oom.last != "" || s.kills() == s.oom.before
	s.mu.Unlock()
	if known {
		return
	}
	select {
	case <-s.oomSeen:
	case <-time.After(oomWait):
	case <-s.ctx.Done():
	}
}

// sandboxEnded returns why the sandbox has ended, if that is known.
func (s *Shim) sandboxEnded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.oom.last != "" && time.Since(s.oom.at) < repeatAfter {
		return fmt.Errorf("%s: %s; the sandbox has ended", api.CodeOOMKilled, s.oom.last)
	}
	return errors.New("the sandbox has ended")
}

func overLimit(bytes int64) string { return fmt.Sprintf("over the memory limit of %d MB", bytes>>20) }

// killed emits an event for a process that was killed for memory. If only a child of the agent's
// program was killed, the program continues. If the program itself died, the agent's state becomes
// Error.
func (s *Shim) killed(e sandbox.OOMEvent) {
	what := e.Comm
	if what == "" {
		what = "a process"
	}
	if e.Bytes > 0 {
		what += fmt.Sprintf(" (%d MB)", e.Bytes>>20)
	}
	s.hits.hit("memory", e.Count, time.Now())
	limit := s.settings().MemoryBytes
	why := overLimit(limit)
	if e.Above {
		why = "the memory of all agents together, or of the machine, was used up"
	}
	msg := fmt.Sprintf("%s of agent %s was killed: %s", what, s.Spec.Agent, why)
	s.mu.Lock()
	s.oom.last, s.oom.at = msg, time.Now()
	own := s.main != nil && e.Pid == s.main.proc.Pid()
	lives := s.main != nil && !s.main.over() && !own
	s.mu.Unlock()
	select {
	case s.oomSeen <- struct{}{}:
	default:
	}
	data := map[string]any{"pid": e.Pid, "comm": e.Comm, "bytes": e.Bytes, "limit_bytes": limit, "total": e.Above, "own_program": own}
	if !e.Above {
		data["hint"] = memoryHint(s.Spec.Agent, limit)
	}
	if lives {
		msg += "; the agent's own program continues"
	}
	s.events.Publish(api.Event{Type: api.EventOOM, Agent: s.Spec.Agent, Code: api.CodeOOMKilled, Message: msg,
		Data: data})
}

// memoryHint returns the command that doubles an agent's memory.
func memoryHint(agent string, limit int64) string {
	return fmt.Sprintf("polisctl agents set %s --memory %d", agent, (limit>>20)*2)
}
