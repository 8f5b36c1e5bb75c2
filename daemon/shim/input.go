package shim

import (
	"context"
	"io"
	"net/http"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

const (
	// readTime is how long a command may take to read its input.
	readTime = 5 * time.Second
	// enterPause lies between a text and its Enter on a terminal: programs with a prompt of their
	// own treat what arrives in one read as pasted, and an Enter in it as a line break of the
	// text.
	enterPause = 50 * time.Millisecond
	// afterInput is how long a command may take to end because of its input.
	afterInput = 300 * time.Millisecond
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
		return api.Errorf(api.CodeBadState, "agent %s runs no command", s.Spec.Agent).
			WithHint("polisctl agents start --program %s, or polisctl agents shell %s", s.Spec.Agent, s.Spec.Agent)
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	if err := m.send(ctx, s.Spec.Agent, req); err != nil {
		return err
	}
	return writeJSON(w, struct{}{})
}

// send writes to the command's input and returns when the command has read it. It stops waiting with
// ctx: the command then gets the text when it reads, and no other input before.
func (s *session) send(ctx context.Context, agent string, req wire.InputRequest) error {
	unread := func() error {
		return api.Errorf(api.CodeTimeout, "the command of agent %s has not read what was sent", agent).
			WithHint("it gets it when it reads, unless it is stopped; polisctl agents watch %s shows what it does", agent)
	}
	select {
	case s.sending <- struct{}{}:
	case <-ctx.Done():
		return unread()
	}
	taken := make(chan error, 1)
	// Ends with the command at the latest, which closes its input.
	go func() {
		defer func() { <-s.sending }()
		taken <- s.typeText(req)
	}()
	select {
	case err := <-taken:
		if err != nil {
			return api.Errorf(api.CodeBadState, "the command does not take input any more: %w", err)
		}
		return s.survives(ctx, agent)
	case <-ctx.Done():
		return unread()
	}
}

// typeText writes a text, and Enter, and waits until the command has read both.
func (s *session) typeText(req wire.InputRequest) error {
	text := req.Text
	if !s.tty && !req.NoEnter {
		text += "\n"
	}
	if _, err := io.WriteString(s.input, text); err != nil {
		return err
	}
	s.awaitRead()
	if !s.tty || req.NoEnter {
		return nil
	}
	select {
	case <-time.After(enterPause):
	case <-s.done: // the write below returns the error
	}
	_, err := io.WriteString(s.input, "\r")
	s.awaitRead()
	return err
}

// survives reports the end of a command that input made fail, such as an answer to a dialog that
// nobody saw.
func (s *session) survives(ctx context.Context, agent string) error {
	t := time.NewTimer(afterInput)
	defer t.Stop()
	select {
	case <-s.done:
		if s.code != 0 {
			return api.Errorf(api.CodeBadState, "the command of agent %s read what was sent and ended with exit code %d", agent, s.code).
				WithHint("polisctl agents watch %s shows what it printed last, polisctl agents start --program %s starts it again", agent, agent)
		}
	case <-t.C:
	case <-ctx.Done():
	}
	return nil
}
