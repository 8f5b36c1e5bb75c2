package worktree

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
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

// ErrUnreadable says that git makes no sense of what an agent has left of its HEAD, index
// or files, or not within Save's bound. PutAside keeps such a worktree.
var ErrUnreadable = errors.New("git cannot read the worktree")

// noRoom says whether Save failed for lack of space, which has nothing to do with what it
// should have kept.
func noRoom(err error) bool {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return true
	}
	var exit *git.ExitError
	return errors.As(err, &exit) && (strings.Contains(exit.Stderr, unix.ENOSPC.Error()) || strings.Contains(exit.Stderr, unix.EDQUOT.Error()))
}

// PutAside moves a worktree that Save cannot keep, as it is, to the trash
// directory and returns its place there. The branch stays.
func (w *Workspace) PutAside(ctx context.Context, agent string, why error) (dir string, err error) {
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return "", err
	}
	defer done()
	if err := api.CheckName(agent); err != nil {
		return "", err
	}
	if err := w.uncovered(agent, api.CodeBadState); err != nil {
		return "", err
	}
	t := w.look(agent)
	if errors.Is(t.Broken, errAbsent) {
		return "", nil
	}
	t.Broken = why
	return w.putAside(t)
}

// SaveBranch keeps the commits of an agent whose worktree Save cannot keep.
func (w *Workspace) SaveBranch(ctx context.Context, agent string, opt SaveOptions) (TrashRef, error) {
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return TrashRef{}, err
	}
	defer done()
	if err := api.CheckName(agent); err != nil {
		return TrashRef{}, err
	}
	return w.saveBranch(ctx, agent, opt)
}

// Sweep removes what a daemon that died in the middle of something left beside
// the worktrees. Only for a start, when nothing else is at work here.
func (w *Workspace) Sweep() error { return (&upper{w: w}).sweep() }
