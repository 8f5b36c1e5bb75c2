package shim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs"
)

const (
	// freezeTime bounds the wait until all processes are frozen.
	freezeTime = 500 * time.Millisecond
	// maxFreeze is the longest freeze that ends by itself.
	maxFreeze = time.Minute
)

// freezer freezes the processes of the sandbox, never the shim: every call in a view would hang.
//
// A process that waits in a view does not freeze before it is answered. While the sandbox is frozen
// the views begin no change, so that such a process counts as stopped. The state is in memory only:
// with the shim the sandbox ends.
type freezer struct {
	mu     sync.Mutex
	frozen *api.Frozen
	timer  *time.Timer // ends the freeze; nil if a person does
}

// state returns the present freeze; nil if there is none.
func (f *freezer) state() *api.Frozen {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen == nil {
		return nil
	}
	c := *f.frozen
	return &c
}

// freeze freezes all processes, or none.
func (s *Shim) freeze(ctx context.Context, want api.Frozen, last time.Duration) error {
	f := &s.freezer
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen != nil {
		return api.Errorf(api.CodeBadState, "agent %s is frozen already (%s)", s.Spec.Agent, f.frozen.By).WithHint("polisctl agents thaw %s", s.Spec.Agent)
	}
	if err := s.orderFreeze(); err != nil {
		return errors.Join(s.notFrozen(err), s.melt())
	}
	ctx, cancel := context.WithTimeout(ctx, freezeTime)
	defer cancel()
	if err := s.sandbox.Group().AwaitFrozen(ctx, waitsInView); err != nil {
		return errors.Join(s.notFrozen(err), s.melt())
	}
	f.frozen = &want
	if last > 0 {
		f.timer = time.AfterFunc(last, func() {
			if err := s.thaw(want.By); err != nil && api.CodeOf(err) != api.CodeBadState {
				s.Log.Error("agent not thawed", "err", err)
			}
		})
	}
	return nil
}

func (s *Shim) notFrozen(err error) error {
	return api.Errorf(api.CodeCgroupFailed, "freeze agent %s: %w", s.Spec.Agent, err)
}

// orderFreeze orders the kernel to freeze the processes, and the views to begin no change. It does
// not wait.
func (s *Shim) orderFreeze() error {
	s.views.suspend(true)
	return s.sandbox.Group().Freeze(true)
}

func (s *Shim) melt() error {
	err := s.sandbox.Group().Freeze(false)
	s.views.suspend(false)
	return err
}

// thaw ends a freeze; by, if not empty, must be who froze.
func (s *Shim) thaw(by string) error {
	f := &s.freezer
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen == nil || by != "" && f.frozen.By != by {
		return api.Errorf(api.CodeBadState, "agent %s is not frozen", s.Spec.Agent).WithHint("polisctl agents list shows what agents wait for")
	}
	if err := s.melt(); err != nil {
		return api.Errorf(api.CodeCgroupFailed, "thaw agent %s: %w", s.Spec.Agent, err)
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	was := *f.frozen
	f.frozen, f.timer = nil, nil
	if was.By == api.FrozenByBreaker { // a checkpoint each minute must not forget what a minute has
		s.breakers.Reset()
		s.breakersOn()
	}
	if was.By != api.FrozenByPatrol {
		s.events.Publish(api.Event{Type: api.EventThawed, Agent: s.Spec.Agent, Message: fmt.Sprintf("agent %s was thawed", s.Spec.Agent)})
	}
	return nil
}

// unfrozen is an error while the agent is frozen: nothing that is started would run.
func (s *Shim) unfrozen() error {
	if f := s.freezer.state(); f != nil && f.Until == nil {
		return api.Errorf(api.CodeBadState, "agent %s is frozen: %s", s.Spec.Agent, f.Reason).
			WithHint("polisctl agents thaw %s lets it continue, polisctl agents stop %s ends it", s.Spec.Agent, s.Spec.Agent)
	}
	return nil
}

// waitsInView reports whether a thread that waits in this function of the kernel waits for the
// answer to a FUSE request (fs/fuse/dev.c).
func waitsInView(wchan string) bool {
	return wchan == "request_wait_answer" || strings.HasPrefix(wchan, "fuse_") || strings.HasPrefix(wchan, "__fuse_")
}

// suspend holds back the changes of both views, or lets them continue.
func (v *views) suspend(on bool) {
	v.mu.Lock()
	both := []*fusefs.FS{v.tree, v.git}
	v.mu.Unlock()
	for _, fs := range both {
		switch {
		case fs == nil:
		case on:
			fs.Suspend()
		default:
			fs.Resume()
		}
	}
}

// waitsForThaw reports whether a frozen agent waits for a person to thaw it: a freeze can end by itself, as for a
// checkpoint, and that of a budget ends with the answer to its question.
func waitsForThaw(z *api.Frozen, open *api.Waiting) bool {
	return z != nil && z.Until == nil && (open == nil || z.By != api.FrozenByBudget)
}

func (s *Shim) handleFreeze(w http.ResponseWriter, r *http.Request) error {
	var req wire.FreezeRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	last := time.Duration(req.For)
	switch {
	case req.Generation != s.Spec.Generation:
		return api.Errorf(api.CodeBadState, "agent %s is of generation %d, not %d: it was started again", s.Spec.Agent, s.Spec.Generation, req.Generation)
	case req.By == "" || last <= 0 || last > maxFreeze:
		return api.Errorf(api.CodeBadRequest, "freeze: by must be given, and for must be at most %s", maxFreeze)
	}
	now := time.Now()
	until := now.Add(last)
	if err := s.freeze(r.Context(), api.Frozen{By: req.By, At: now, Reason: api.Shorten(req.Reason, 500), Until: &until}, last); err != nil {
		return err
	}
	return writeJSON(w, struct{}{})
}

func (s *Shim) handleThaw(w http.ResponseWriter, r *http.Request) error {
	var req wire.ThawRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if err := s.thaw(req.By); err != nil {
		return err
	}
	return writeJSON(w, struct{}{})
}

// stopSession ends the main command: TERM, the grace, KILL. Processes that are frozen for the patrol
// get the signal before they continue. A command that a breaker froze gets no time: it would continue with
// what it was stopped for.
func (s *Shim) stopSession(ctx context.Context, m *session, grace time.Duration) error {
	z := s.freezer.state()
	breaker := z != nil && z.By == api.FrozenByBreaker
	if breaker {
		grace = 0
	}
	return m.stop(ctx, grace, func(sig syscall.Signal) {
		if z == nil || breaker && sig != syscall.SIGKILL {
			return
		}
		if err := s.thaw(z.By); err != nil && api.CodeOf(err) != api.CodeBadState {
			s.Log.Error("agent not thawed", "err", err)
		}
	})
}
