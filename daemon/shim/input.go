package shim

import (
	"context"
	"io"
	"net/http"
	"time"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
)

const (
	// readTime is how long a command may take to read its input.
	readTime = 5 * time.Second
	// enterPause lies between a text and its Enter on a terminal: programs with a prompt of their
	// own treat what arrives in one read as pasted, and an Enter in it as a line break of the
	// text.
	enterPause = 50 * time.Millisecond
)

// handleInput types a line into the main command.
func (s *Shim) handleInput(w http.ResponseWriter, r *http.Request) error {
	var req wire.InputRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if req.Text == "" || len(req.Text) > wire.MaxInput {
		return api.Errorf(api.CodeBadRequest, "text has %d bytes: from 1 to %d", len(req.Text), wire.MaxInput)
	}
	m := s.current()
	if m == nil || m.over() {
		return api.Errorf(api.CodeBadState, "agent %s runs no command", s.Spec.Agent).WithHint("polisctl agents start %s", s.Spec.Agent)
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	if err := m.send(ctx, req); err != nil {
		return err
	}
	return writeJSON(w, struct{}{})
}

// send writes to the command's input. When ctx ends, it stops waiting: the command still gets the
// text when it reads, and no later input before it.
func (s *session) send(ctx context.Context, req wire.InputRequest) error {
	unread := func() error {
		return api.Errorf(api.CodeTimeout, "the command does not read its input").WithHint("it gets what was sent when it does, unless it is stopped")
	}
	select {
	case s.sending <- struct{}{}:
	case <-ctx.Done():
		return unread()
	}
	written := make(chan error, 1)
	// Ends with the command at the latest, which closes its input.
	go func() {
		defer func() { <-s.sending }()
		_, err := io.WriteString(s.input, req.Text)
		if err == nil && !req.NoEnter {
			enter := "\n"
			if s.tty {
				enter = "\r"
				select {
				case <-time.After(enterPause):
				case <-s.done: // the write below returns the error
				}
			}
			_, err = io.WriteString(s.input, enter)
		}
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			return api.Errorf(api.CodeBadState, "the command does not take input any more: %w", err)
		}
		return nil
	case <-ctx.Done():
		return unread()
	}
}
