package shim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/rules/steps"
	"polis/fusefs/view"
	"polis/lockd"
)

// RawLog is the name of the log of what programs printed whose output log has steps instead.
const RawLog = "raw.log"

const (
	// noteBurst and noteEvery bound the steps that polis adds: an agent can be refused
	// as often as it likes.
	noteBurst = 20
	noteEvery = time.Second
	// maxNames bounds the refused destinations of a task that are a step each.
	maxNames = 64
	// waitNote is how long a lease is awaited before that is a step.
	waitNote = time.Second
	// holderTime bounds the query for its holder.
	holderTime = 2 * time.Second
)

// stepper is what the main command does as a task. Its session's mu guards it.
type stepper struct {
	task   string
	stream *steps.Stream
	raw    *logFile // nil: the command prints text
	begin  int64    // of its output in raw
	end    int64    // 0: more may come
	over   bool     // no step comes any more, even if nothing was printed
	notes  *rate.Limiter
	names  map[string]bool      // refused destinations that are a step already
	ran    func(command string) // called for each command that the agent runs
}

// newStepper begins the steps of a task; nil if the command is none. s.mu is held.
func (s *Shim) newStepper(req wire.StartRequest) (*stepper, error) {
	if req.Task == "" {
		return nil, nil
	}
	st := &stepper{task: req.Task, stream: steps.New(req.Stream), notes: rate.NewLimiter(rate.Every(noteEvery), noteBurst), ran: s.breakers.Ran}
	if st.stream == nil || req.Stream != "" && req.TTY {
		return nil, api.Errorf(api.CodeBadRequest, "stream = %q: must be one of %s, of a command without a terminal", api.Shorten(req.Stream, 32), strings.Join(steps.Formats(), ", "))
	}
	st.stream.Root = s.Spec.ProjectPath
	if req.Stream == "" {
		return st, nil
	}
	if s.raw == nil {
		raw, err := openLog(s.logDir(), RawLog, s.Spec.LogBytes)
		if err != nil {
			return nil, api.Errorf(api.CodeInternal, "%w", err)
		}
		s.raw = raw
	}
	st.raw, st.begin = s.raw, s.raw.position()
	return st, nil
}

// closeRaw closes the raw log, if it was ever opened.
func (s *Shim) closeRaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raw == nil {
		return nil
	}
	return s.raw.Close()
}

// reads reports whether the command's output is a stream.
func (st *stepper) reads() bool { return st != nil && st.raw != nil }

// show writes the bytes that the command printed to the raw log, and the steps in them to
// the log and to the subscribers. s.mu is held.
func (s *session) show(printed []byte, done []api.Step, log io.Writer) error {
	if len(printed) > 0 {
		if _, err := s.steps.raw.Write(printed); err != nil {
			return err
		}
	}
	if len(done) == 0 {
		return nil
	}
	var text strings.Builder
	for _, st := range done {
		s.stepped(st)
		if st.Kind == api.StepCommand && s.steps.ran != nil {
			s.steps.ran(st.Text)
		}
		text.WriteString(steps.Render(st))
	}
	s.fan([]byte(text.String()))
	_, err := io.WriteString(log, text.String())
	return err
}

// errorOutput takes what the command wrote to standard error, if that is not its output.
func (s *session) errorOutput(p []byte, log io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printed.Write(p, time.Now())
	return s.show(p, s.steps.stream.Text(p), log)
}

// endSteps writes the steps in the last line of the command. No step comes after it.
func (s *session) endSteps(log io.Writer, lg *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps == nil {
		return
	}
	s.steps.over = true
	if !s.steps.reads() {
		return
	}
	if err := s.show(nil, s.steps.stream.End(), log); err != nil {
		lg.Error("output log not written", "err", err)
	}
	s.steps.end = s.steps.raw.position()
}

// note adds a step that polis saw; text is called if there is room for it.
func (s *session) note(kind api.StepKind, text func() string, log io.Writer) error {
	s.mu.Lock()
	room := s.steps != nil && s.steps.notes.Allow()
	s.mu.Unlock()
	if !room || s.over() {
		return nil
	}
	line := text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps.over {
		return nil
	}
	st := s.steps.stream.Note(kind, line)
	if !s.steps.reads() {
		return nil // what its program prints is not interrupted
	}
	return s.show(nil, []api.Step{st}, log)
}

// noteStep adds a step to the task that runs, if one does. It does not take s.mu: it is
// called by a view and by a request for a lease, which the start of the command can wait for.
func (s *Shim) noteStep(kind api.StepKind, text func() string) {
	m := s.stepping.Load()
	if m == nil {
		return
	}
	if err := m.note(kind, text, s.out); err != nil {
		s.Log.Error("output log not written", "err", err)
	}
}

// firstOf reports whether a refused destination is no step of the task yet, and notes it. Programs retry a name
// all the time, for IPv4 and for IPv6: many equal lines would hide what they print.
func (s *session) firstOf(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps == nil || s.steps.names[name] || len(s.steps.names) >= maxNames {
		return false
	}
	if s.steps.names == nil {
		s.steps.names = map[string]bool{}
	}
	s.steps.names[name] = true
	return true
}

// noteDenied makes a refusal a step; of a destination, the first of the task.
func (s *Shim) noteDenied(d view.Denial) {
	if m := s.stepping.Load(); d.Foreign || m == nil || d.Code == string(api.CodeEgressDenied) && !m.firstOf(d.Path) {
		return
	}
	s.noteStep(api.StepRefused, func() string {
		if d.By != "" {
			return api.DeniedText(d.By, d.Path, d.Reason)
		}
		text := fmt.Sprintf("%s of %s (%s", d.Op, d.Path, because(d))
		if d.Holder != "" {
			text += ", held by " + d.Holder
		}
		return text + ")"
	})
}

// noteWaiting makes a wait for leases a step, once it has taken a while; stop ends it.
func (s *Shim) noteWaiting(r view.LockRequest) (stop func() bool) {
	all := append(r.Paths[:len(r.Paths):len(r.Paths)], r.Trees...)
	if s.stepping.Load() == nil || len(all) == 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(waitNote, func() {
		s.noteStep(api.StepWaiting, func() string {
			ctx, cancel := context.WithTimeout(s.ctx, holderTime)
			defer cancel()
			for _, p := range all[:min(len(all), 8)] {
				if by, err := s.views.locks.Holders(ctx, lockd.FileKey(p)); err == nil && len(by) > 0 && by[0].Holder != s.Spec.Agent {
					return "for the lease on " + p + ", held by " + by[0].Holder
				}
			}
			return "for the lease on " + all[0]
		})
	}).Stop
}

// handleSteps is GET /v1/steps.
func (s *Shim) handleSteps(w http.ResponseWriter, _ *http.Request) error {
	s.mu.Lock()
	m := s.main
	s.mu.Unlock()
	var out wire.Steps
	if m != nil {
		out = m.taskSteps()
	}
	return writeJSON(w, out)
}

// taskSteps returns the steps of the command's task; nothing if it is none.
func (s *session) taskSteps() (out wire.Steps) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.steps
	if st == nil {
		return out
	}
	out.Task, out.Report = st.task, st.stream.Report()
	out.Steps, out.Total = st.stream.Kept()
	if st.raw != nil {
		out.Raw = &api.OutputRange{From: st.begin, To: st.end}
	}
	return out
}
