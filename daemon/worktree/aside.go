package worktree

import (
	"context"
	"errors"

	"polis/daemon/api"
)

// ErrInterrupted is how a worktree is broken whose checkout was cut short:
// there is nothing in it but what git put there.
var ErrInterrupted = errors.New("its checkout was interrupted")

// errNoDirectory is how one is broken whose files are gone.
var errNoDirectory = errors.New("its directory is missing")

// Broken says why an agent's worktree cannot be used; nil if it can, or if
// there is none.
func (w *Workspace) Broken(agent string) error {
	if t := w.look(agent); !errors.Is(t.Broken, errAbsent) {
		return t.Broken
	}
	return nil
}

// Missing says that the files of a worktree are gone.
func (t Worktree) Missing() bool {
	return errors.Is(t.Broken, errAbsent) || errors.Is(t.Broken, errNoDirectory)
}

// PutAside moves a broken worktree, as it is, to the trash directory. One that
// is whole is left alone: Save keeps those.
func (w *Workspace) PutAside(ctx context.Context, agent string) error {
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return err
	}
	defer done()
	if err := api.CheckName(agent); err != nil {
		return err
	}
	if err := w.uncovered(agent, api.CodeBadState); err != nil {
		return err
	}
	t := w.look(agent)
	if t.Broken == nil || errors.Is(t.Broken, errAbsent) {
		return nil
	}
	return w.putAside(t)
}

// Sweep removes what a daemon that died in the middle of something left beside
// the worktrees. Only for a start, when nothing else is at work here.
func (w *Workspace) Sweep() error { return (&upper{w: w}).sweep() }
