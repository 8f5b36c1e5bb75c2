package shim

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
)

// oomWait is how long the report of a kill may come after the end of its victim: the kernel
// logs who it was a little later than it counts.
const oomWait = 300 * time.Millisecond

// oomState is what kills for memory mean for the agent's own program.
type oomState struct {
	last   string    // the last kill, in words
	at     time.Time // when it was
	before uint64    // kills when the program was started
	judged bool      // the program has ended, and main says whether it died of a kill
	main   bool
}

// kills is how many processes of the sandbox were killed for memory.
func (s *Shim) kills() uint64 {
	n, err := s.sandbox.Group().OOMKills()
	if err != nil {
		s.Log.Debug("kills for memory not counted", "err", err)
	}
	return n
}

// beginOOM begins to count for a program that is about to start; s.mu is held.
func (s *Shim) beginOOM() { s.oom = oomState{before: s.kills()} }

// oomOfMain is the kill that the agent's own program died of, "" if it lives or ended by
// itself. A program that ends as one that was killed, after a kill, has lost what it could not
// work without: a shell or a launcher passes on how its child ended. s.mu is held.
func (s *Shim) oomOfMain() string {
	if s.main == nil || !s.main.over() {
		return ""
	}
	if !s.oom.judged {
		s.oom.judged, s.oom.main = true, s.main.code == 128+int(syscall.SIGKILL) && s.kills() > s.oom.before
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

// sandboxEnded is why the sandbox is gone, as far as it is known.
func (s *Shim) sandboxEnded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.oom.last != "" && time.Since(s.oom.at) < repeatAfter {
		return fmt.Errorf("%s: %s; the sandbox has ended", api.CodeOOMKilled, s.oom.last)
	}
	return errors.New("the sandbox has ended")
}

func overLimit(bytes int64) string { return fmt.Sprintf("over the memory limit of %d MB", bytes>>20) }

// killed emits an event for a process that was killed for memory. What the agent's program
// started goes, and the program goes on; its own death is the agent's Error.
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
		msg += "; the agent's own program goes on"
	}
	s.events.Publish(api.Event{Type: api.EventOOM, Agent: s.Spec.Agent, Code: api.CodeOOMKilled, Message: msg,
		Data: data})
}

// memoryHint is the command that gives an agent more memory: twice as much.
func memoryHint(agent string, limit int64) string {
	return fmt.Sprintf("polisctl agents set %s --memory %d", agent, (limit>>20)*2)
}
