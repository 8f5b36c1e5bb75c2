package shim

import (
	"context"
	"fmt"
	"time"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/shim/leftover"
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
	p := sandbox.Process{Args: req.Command, Env: s.env(more, req.TTY), Cwd: s.Spec.ProjectPath, TTY: req.TTY, Rows: 24, Cols: 80}
	m, err := s.startTask(p, req, taskStart{start: s.sandbox.Start, use: s.use, steps: st, from: from, exited: func(m *session) {
		s.leftRunning(since, req.Task)
		s.awaitOOM(m.code)
		s.keepExit(m)
	}})
	if err != nil {
		return startError(req.Command[0], err)
	}
	s.group.Go(func() error {
		<-m.done
		s.events.Publish(api.Event{Type: wire.EventExit, Agent: s.Spec.Agent,
			Message: fmt.Sprintf("the command of agent %s ended with exit code %d", s.Spec.Agent, m.code),
			Data:    map[string]any{"exit_code": m.code}})
		return nil
	})
	return nil
}

// taskStart is what the start of a main command needs of its shim.
type taskStart struct {
	start  startFunc
	use    func() api.TaskUse // of the sandbox, so far
	steps  *stepper           // nil: the command is no task
	from   int64              // where its output begins
	exited func(*session)
}

// startTask starts the main command. What is compared with the beginning of its task is noted before its
// first instruction: what a quick program is refused counts as well. s.mu is held.
func (s *Shim) startTask(p sandbox.Process, req wire.StartRequest, by taskStart) (*session, error) {
	task, began, last := s.task, s.mainStart, s.lastTask
	m, err := startSession(s.ctx, by.start, p, req.NoInput, by.steps, s.out, s.Log, func(m *session) {
		s.mainStart = time.Now()
		s.mainPid.Store(-1)
		s.noteTask(req.Task, by.from, by.use())
		s.covers.begin()
		if by.steps != nil {
			s.stepping.Store(m)
		}
	}, func(m *session) {
		s.stepping.CompareAndSwap(m, nil)
		s.covers.end()
		by.exited(m)
	})
	if err != nil {
		s.task, s.mainStart, s.lastTask = task, began, last
		s.auditTask.Store(nil)
		s.stepping.Store(nil)
		s.covers.end()
		s.mainPid.Store(0)
		return nil, err
	}
	s.main = m
	s.mainPid.Store(int64(m.proc.Pid()))
	return m, nil
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
