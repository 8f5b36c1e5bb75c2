package shim

import (
	"context"
	"fmt"
	"time"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/daemon/shim/leftover"
	"polis/daemon/shim/wire"
)

// startMain runs the agent's main command.
func (s *Shim) startMain(_ context.Context, req wire.StartRequest) error {
	if len(req.Command) == 0 || req.Command[0] == "" {
		return api.Errorf(api.CodeBadRequest, "command is empty: give the program to run")
	}
	if err := s.unfrozen(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main != nil && !s.main.over() {
		return api.Errorf(api.CodeBadState, "agent %s already runs a command", s.Spec.Agent).
			WithHint("polisctl agents attach %s shows it, polisctl agents stop %s ends it", s.Spec.Agent, s.Spec.Agent)
	}
	from := s.out.position()
	if req.Banner != "" {
		if _, err := s.out.Write([]byte(req.Banner)); err != nil {
			return api.Errorf(api.CodeInternal, "write output log: %w", err)
		}
	}
	more := req.Env
	if req.Task != "" {
		more = append(more, "POLIS_TASK="+req.Task)
	}
	since, err := leftover.Now()
	if err != nil {
		return api.Errorf(api.CodeInternal, "read the clock: %w", err)
	}
	s.beginOOM()
	st, err := s.newStepper(req)
	if err != nil {
		return err
	}
	m, err := startSession(s.ctx, s.sandbox, sandbox.Process{Args: req.Command, Env: s.env(more, req.TTY),
		Cwd: s.Spec.ProjectPath, TTY: req.TTY, Rows: 24, Cols: 80}, req.NoInput, st, s.out, s.Log, func(m *session) {
		if st != nil {
			s.stepping.Store(m) // what its first call meets is a step, too
		}
	}, func(m *session) {
		s.stepping.CompareAndSwap(m, nil)
		s.leftRunning(since, req.Task)
		s.awaitOOM(m.code)
		s.keepExit(m)
	})
	if err != nil {
		s.stepping.Store(nil)
		return startError(req.Command[0], err)
	}
	s.main, s.mainStart = m, time.Now()
	s.noteTask(req.Task, from)
	s.group.Go(func() error {
		<-m.done
		s.events.Publish(api.Event{Type: wire.EventExit, Agent: s.Spec.Agent,
			Message: fmt.Sprintf("the command of agent %s ended with exit code %d", s.Spec.Agent, m.code),
			Data:    map[string]any{"exit_code": m.code}})
		return nil
	})
	return nil
}

func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// current returns the running main command, or nil.
func (s *Shim) current() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil || s.main.over() {
		return nil
	}
	return s.main
}
