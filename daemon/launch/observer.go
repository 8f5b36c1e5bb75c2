package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"polis/daemon/agent"
	"polis/daemon/host/launcher"
	"polis/daemon/shim/dial"
)

// Observer implements agent.Watcher: it observes shims from outside.
type Observer struct {
	*Shims

	mu    sync.Mutex
	lives map[string]shimLife
}

// shimLife identifies one run of a shim.
type shimLife struct {
	proc  launcher.Process
	conns viewConns
}

// NewObserver returns what observes the shims.
func NewObserver(s *Shims) *Observer { return &Observer{Shims: s, lives: map[string]shimLife{}} }

// life finds the process and the connections of an agent's shim, once per run of the shim.
func (w *Observer) life(ctx context.Context, a *agent.Agent) (shimLife, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lifeLocked(ctx, a.Name())
}

func (w *Observer) lifeLocked(ctx context.Context, name string) (shimLife, error) {
	if l, ok := w.lives[name]; ok {
		return l, nil
	}
	proc, err := w.launcher.Process(ctx, name, w.Run.Agent(name))
	if err != nil {
		return shimLife{}, err
	}
	l := shimLife{proc: proc}
	if l.conns, err = w.connections(name); err != nil {
		return shimLife{}, err
	}
	w.lives[name] = l
	return l, nil
}

// Forget drops what is known of a shim that has ended.
func (w *Observer) Forget(a *agent.Agent) {
	w.heartbeats.forget(a.Name())
	w.reminders.forget(a.Name())
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.lives[a.Name()].conns.close() //nolint:errcheck // it was only read
	delete(w.lives, a.Name())
}

// Beat returns the age of the shim's last heartbeat; false if there was none.
func (w *Observer) Beat(a *agent.Agent) (age time.Duration, ok bool) {
	return w.heartbeats.age(a.Name())
}

// Stopped reports whether the shim is stopped by a signal.
func (w *Observer) Stopped(ctx context.Context, a *agent.Agent) (bool, error) {
	l, err := w.life(ctx, a)
	if err != nil {
		return false, err
	}
	stopped, err := l.proc.Stopped()
	if err != nil { // it has another process now, or none
		w.Forget(a)
	}
	return stopped, err
}

// Continue continues a stopped shim.
func (w *Observer) Continue(ctx context.Context, a *agent.Agent) error {
	l, err := w.life(ctx, a)
	if err != nil {
		return err
	}
	return l.proc.Continue()
}

// Waiting returns the number of unanswered requests to the agent's views.
func (w *Observer) Waiting(ctx context.Context, a *agent.Agent) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock() // Forget closes the connections
	l, err := w.lifeLocked(ctx, a.Name())
	if err != nil {
		return 0, err
	}
	return l.conns.waiting()
}

// Dying reports whether the shim was killed and has not ended. A process that has gone is not dying.
func (w *Observer) Dying(ctx context.Context, a *agent.Agent) (bool, error) {
	l, err := w.life(ctx, a)
	if err != nil {
		return false, err
	}
	return l.proc.Dying()
}

// Ping queries the shim. One whose socket another program removed makes it again within seconds, and does not hang.
func (w *Observer) Ping(ctx context.Context, a *agent.Agent) error {
	sh := w.dial(a.Name())
	defer sh.Close()
	for {
		if err := sh.Ping(ctx); !dial.Missing(err) || ctx.Err() != nil {
			return err
		}
		sleep(ctx, socketTick)
	}
}

// Statfs runs statfs(2) on the view in a process of its own. On a hung view the call blocks until
// the view is aborted, and SIGKILL does not end it.
func (w *Observer) Statfs(ctx context.Context, a *agent.Agent) error {
	return launcher.Statfs(ctx, w.program, a.Worktree())
}

// End aborts the connections of the agent's views and kills its shim.
func (w *Observer) End(ctx context.Context, a *agent.Agent) error {
	w.mu.Lock()
	defer w.mu.Unlock() // Forget closes the connections
	l, err := w.lifeLocked(ctx, a.Name())
	if err != nil {
		return err
	}
	err = w.abort(a.Name(), l.conns)
	if kerr := l.proc.Kill(); kerr != nil {
		err = errors.Join(err, fmt.Errorf("kill the shim of agent %s: %w", a.Name(), kerr))
	}
	return err
}
