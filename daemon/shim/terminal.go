package shim

import (
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/shim/screen"
)

// settleAfter is the delay after output until its lines are written to the log.
const settleAfter = 30 * time.Millisecond

// terminal emulates what a command on a terminal shows. Its lines are written to the log.
type terminal struct {
	screen *screen.Screen
	log    io.Writer
	wrote  chan struct{} // holds a value while unprocessed output exists
	begin  int64         // the position in the log when the command began
}

func newTerminal(rows, cols int, log io.Writer) *terminal {
	t := &terminal{screen: screen.New(rows, cols), log: log, wrote: make(chan struct{}, 1), begin: -1}
	if l, ok := log.(*logFile); ok {
		t.begin = l.position()
	}
	return t
}

func (t *terminal) write(p []byte) error {
	_, _ = t.screen.Write(p) //nolint:errcheck // it never fails
	select {
	case t.wrote <- struct{}{}:
	default:
	}
	return t.flush()
}

// flush writes the finished lines of the transcript to the log.
func (t *terminal) flush() error {
	out := t.screen.Take()
	if len(out) == 0 {
		return nil
	}
	_, err := t.log.Write(out)
	return err
}

// settle writes lines to the log after output, until copied is closed. Then it writes the rest.
func (s *session) settle(copied <-chan struct{}, lg *slog.Logger) {
	if s.term == nil {
		return
	}
	look := func() (again time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		again = s.term.screen.Settle(time.Now())
		if err := s.term.flush(); err != nil {
			lg.Error("output log not written", "err", err)
		}
		return again
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	timer.Stop()
	wrote := s.term.wrote
	for {
		select {
		case <-wrote:
			timer.Reset(settleAfter)
			wrote = nil // output until then is processed at the timer
		case <-timer.C:
			wrote = s.term.wrote
			if again := look(); again > 0 {
				timer.Reset(again)
			}
		case <-copied:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.term.screen.End()
			if err := s.term.flush(); err != nil {
				lg.Error("output log not written", "err", err)
			}
			return
		}
	}
}

// handleScreen is GET /v1/screen.
func (s *Shim) handleScreen(w http.ResponseWriter, r *http.Request) error {
	n, err := strconv.Atoi(r.URL.Query().Get("lines"))
	if err != nil || n < 0 {
		return api.Errorf(api.CodeBadRequest, "lines = %q: must be a whole number", api.Shorten(r.URL.Query().Get("lines"), 32))
	}
	s.mu.Lock()
	m := s.main
	s.mu.Unlock()
	var out wire.Screen
	if m != nil && m.term != nil {
		m.mu.Lock()
		out.Terminal, out.Begin = true, m.term.begin
		out.Rows, out.Cols = m.term.screen.Size()
		out.Lines, out.All = m.term.screen.Lines(n)
		m.mu.Unlock()
	}
	return writeJSON(w, out)
}
