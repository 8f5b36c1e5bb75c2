package worktree

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
)

// ErrInterrupted: the checkout of the worktree was interrupted; it contains only files that git
// wrote.
var ErrInterrupted = errors.New("its checkout was interrupted")

// errNoDirectory: the files of the worktree are gone.
var errNoDirectory = errors.New("its directory is missing")

// Broken returns why an agent's worktree cannot be used; nil if it can, or if there is none.
func (w *Workspace) Broken(agent string) error {
	if t := w.read(agent); !errors.Is(t.Broken, errAbsent) {
		return t.Broken
	}
	return nil
}

// Missing reports that the files of a worktree are gone.
func (t Worktree) Missing() bool {
	return errors.Is(t.Broken, errAbsent) || errors.Is(t.Broken, errNoDirectory)
}

// ErrUnreadable: git cannot read the agent's HEAD, index or files, or not within Save's bound.
// MoveToTrash keeps such a worktree.
var ErrUnreadable = errors.New("git cannot read the worktree")

// noRoom reports whether Save failed for lack of space, which is independent of the worktree's
// content.
func noRoom(err error) bool {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return true
	}
	var exit *git.ExitError
	return errors.As(err, &exit) && (strings.Contains(exit.Stderr, unix.ENOSPC.Error()) || strings.Contains(exit.Stderr, unix.EDQUOT.Error()))
}

// MoveToTrash moves a worktree that Save cannot keep, unchanged, to the trash directory and returns
// its path there. The branch stays.
func (w *Workspace) MoveToTrash(ctx context.Context, agent string, why error) (dir string, err error) {
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
	t := w.read(agent)
	if errors.Is(t.Broken, errAbsent) {
		return "", nil
	}
	t.Broken = why
	return w.moveToTrash(ctx, t)
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

// Sweep removes what a daemon that was killed left beside the worktrees. Call it only at start,
// when no other operation runs.
func (w *Workspace) Sweep(ctx context.Context) error {
	return errors.Join((&upper{w: w}).sweep(), w.sweepLayers(ctx), w.unlockIndexes())
}
