package worktree

import (
	"context"
	"fmt"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/failpoint"
)

// AddReader makes the worktree of an agent that changes nothing: layers above the base tree of a
// commit, with a detached HEAD. at names the commit; the target branch if it is empty. An agent that
// has such a worktree already keeps it. Its upper layer contains nothing but .git, so it costs
// little, also if new worktrees are full checkouts.
func (w *Workspace) AddReader(ctx context.Context, agent, at string) (Worktree, error) {
	if err := api.CheckName(agent); err != nil {
		return Worktree{}, err
	}
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return Worktree{}, err
	}
	defer done()
	has, target, err := w.existing(ctx, agent, func(on string) bool { return on == "" })
	if err != nil || has.Path != "" {
		return has, err
	}
	if at == "" {
		at = git.Branch(target)
	}
	ids, err := w.Bare().Resolve(ctx, at+"^{commit}", at+"^{tree}")
	if err == nil && ids[0] == "" {
		err = fmt.Errorf("%s: %w", api.Shorten(at, 200), git.ErrNotFound)
	}
	if err != nil {
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "find the commit that %s is to read: %w", agent, err).
			WithHint("it must be a branch, a tag or a commit of the workspace")
	}
	if err := w.createReader(ctx, agent, ids[0], ids[1]); err != nil {
		// It may have failed because the caller's context ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		if gone := w.drop(ctx, agent); gone != nil {
			w.cfg.Log.Error("failed worktree not undone", "agent", agent, "op", "worktree add", "path", w.tree(agent), "err", gone)
		}
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "make the worktree of %s: %w", agent, err)
	}
	return w.read(agent), nil
}

// createReader makes a worktree at a commit.
func (w *Workspace) createReader(ctx context.Context, agent, commit, tree string) error {
	if err := w.place(agent, "", commit); err != nil {
		return err
	}
	if err := w.fillShared(ctx, agent, commit, tree); err != nil {
		return err
	}
	failpoint.Hit("worktree:made")
	made := w.read(agent)
	if made.Broken == nil {
		w.cfg.Log.Info("read-only worktree made", "agent", agent, "op", "worktree add", "path", made.Path)
	}
	return made.Broken
}
