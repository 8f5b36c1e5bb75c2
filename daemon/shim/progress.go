package shim

import (
	"hash/fnv"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/shim/novelty"
)

// calls are the steps of a command that reports them, for [wire.Progress].
type calls struct {
	step, newCall time.Time
	seen          novelty.Meter
}

// stepped notes a step that the command reported. What polis adds, and what the command prints beside its steps,
// is none. s.mu is held.
func (s *session) stepped(st api.Step) {
	now := time.Now()
	switch st.Kind {
	case api.StepText, api.StepRefused, api.StepWaiting, api.StepApproved:
		return
	case api.StepRead, api.StepEdit, api.StepCommand, api.StepSearch, api.StepWeb, api.StepTool:
		h := fnv.New64a()
		_, _ = h.Write([]byte(string(st.Kind) + " " + st.Text)) //nolint:errcheck // it never fails
		if s.called.seen.First(h.Sum64()) {
			s.called.newCall = now
		}
	}
	s.called.step = now
}

// besides notes what the command printed among its steps that is none. s.mu is held.
func (s *session) besides(done []api.Step) {
	for _, st := range done {
		if st.Kind == api.StepText {
			s.printed.Write([]byte(st.Text+"\n"), time.Now())
		}
	}
}

// progress returns what was seen of a main command's progress.
func (s *Shim) progress(m *session) *wire.Progress {
	p := m.progress()
	if g := s.models.open.Load(); g != nil {
		w := g.Waiting()
		p.Requests, p.WaitsSince, p.Heard = w.Open, w.Since, w.Heard
	}
	return p
}

func (s *session) progress() *wire.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &wire.Progress{Keys: s.readsKeys(), Printed: s.printed.Printed, New: s.printed.New, Step: s.called.step, NewCall: s.called.newCall}
	if s.steps.reads() {
		p.Steps, p.Begins = true, s.steps.stream.Begins()
		if ended := s.steps.stream.Ended(); ended.After(p.Step) {
			p.Step = ended
		}
		p.Call, p.CallSince, p.Calls = s.steps.stream.Open()
	}
	return p
}

// readsKeys reports whether the command has switched the lines of its terminal off, termios(3).
func (s *session) readsKeys() bool {
	if s.term == nil || s.proc == nil {
		return false
	}
	raw, err := s.proc.Console().SyscallConn()
	if err != nil {
		return false
	}
	keys := false
	_ = raw.Control(func(fd uintptr) { //nolint:errcheck // it is closed: the command has ended
		t, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		keys = err == nil && t.Lflag&unix.ICANON == 0
	})
	return keys
}
