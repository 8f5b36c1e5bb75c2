package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"polis/daemon/agent"
	"polis/daemon/launcher"
	"polis/daemon/shim/dial"
	"polis/fusefs/fusectl"
)

// shimWatch implements agent.Watcher: it observes shims from outside.
type shimWatch struct {
	*shims

	mu    sync.Mutex
	lives map[string]shimLife
}

// shimLife identifies one run of a shim.
type shimLife struct {
	proc  launcher.Process
	conns []uint32 // its views' connections
}

// life finds the process and the connections of an agent's shim, once per run of the shim.
func (w *shimWatch) life(ctx context.Context, a *agent.Agent) (shimLife, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := a.Name()
	if l, ok := w.lives[name]; ok && l.proc.Alive() {
		return l, nil
	}
	proc, err := w.launcher.Process(ctx, name, w.run.Agent(name))
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

func (w *shimWatch) Stopped(ctx context.Context, a *agent.Agent) (bool, error) {
	l, err := w.life(ctx, a)
	if err != nil {
		return false, err
	}
	return l.proc.Stopped()
}

func (w *shimWatch) Continue(ctx context.Context, a *agent.Agent) error {
	l, err := w.life(ctx, a)
	if err != nil {
		return err
	}
	return l.proc.Continue()
}

func (w *shimWatch) Waiting(a *agent.Agent) (n int, err error) {
	w.mu.Lock()
	conns := w.lives[a.Name()].conns
	w.mu.Unlock()
	for _, id := range conns {
		k, err := fusectl.Waiting(id)
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

func (w *shimWatch) Ping(ctx context.Context, a *agent.Agent) error {
	sh := dial.New(w.Socket(a.Name()))
	defer sh.Close()
	return sh.Ping(ctx)
}

// Statfs runs statfs(2) on the view in a process of its own. On a hung view the call blocks until
// the view is aborted, and SIGKILL does not end it.
func (w *shimWatch) Statfs(ctx context.Context, a *agent.Agent) error {
	return launcher.Statfs(ctx, w.program, a.Worktree())
}

func (w *shimWatch) End(ctx context.Context, a *agent.Agent) error {
	l, err := w.life(ctx, a)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range l.conns {
		errs = append(errs, fusectl.Abort(id))
	}
	if err := l.proc.Kill(); err != nil {
		errs = append(errs, fmt.Errorf("kill the shim of agent %s: %w", a.Name(), err))
	}
	return errors.Join(errs...)
}
