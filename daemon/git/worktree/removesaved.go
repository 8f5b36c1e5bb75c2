package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// SaveWork saves the work of an agent in the trash. partial is why not all of it could be saved. An
// agent that damaged its own worktree must still be removable: then its branch is saved, and if that
// cannot be read either the branch stays, because it is deleted only after its commits are stored
// elsewhere.
func (w *Workspace) SaveWork(ctx context.Context, agent string, opt SaveOptions) (t TrashRef, partial, err error) {
	t, err = w.Save(ctx, agent, opt)
	if !errors.Is(err, ErrUnreadable) {
		return t, t.Partial(), err
	}
	partial = err
	if t, err = w.SaveBranch(ctx, agent, opt); err != nil && ctx.Err() == nil {
		w.cfg.Log.Warn("branch not saved in the trash; it stays", "agent", agent, "err", err)
		partial, err = errors.Join(partial, err), nil
	}
	return t, partial, err
}

// RemoveSaved removes an agent's worktree, after save has saved its work; save returns why not all of
// it is saved. A worktree that is damaged, or whose work is not saved as a whole, is moved to the
// trash directory, trashDir. Git cannot store a repository inside the worktree in a ref. reader is
// an agent that is read-only: it has no work, like one whose worktree was never complete.
func (w *Workspace) RemoveSaved(ctx context.Context, agent string, reader bool, save func() (partial, err error)) (trashDir string, err error) {
	switch why := w.Broken(agent); {
	case errors.Is(why, ErrInterrupted), reader:
		return "", w.Remove(ctx, agent)
	case why != nil:
		return w.trashAll(ctx, agent, why)
	}
	if _, err := os.Lstat(w.tree(agent)); err == nil {
		partial, err := save()
		if err != nil {
			return "", fmt.Errorf("save the worktree in the trash: %w", err)
		}
		if partial != nil {
			return w.trashAll(ctx, agent, partial)
		}
	}
	return "", w.Remove(ctx, agent)
}

// trashAll moves the worktree to the trash directory, and with it the agent's stash and git
// configuration: no other agent may get them.
func (w *Workspace) trashAll(ctx context.Context, agent string, why error) (string, error) {
	dir, err := w.MoveToTrash(ctx, agent, why)
	if dir == "" {
		return "", err
	}
	if rerr := os.Rename(w.layout().Private(agent), filepath.Join(dir, "private")); rerr != nil && !os.IsNotExist(rerr) {
		err = errors.Join(err, fmt.Errorf("keep the private git directory of agent %s: %w", agent, rerr))
	}
	return dir, err
}
