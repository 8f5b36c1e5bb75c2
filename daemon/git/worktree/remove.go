package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// Remove removes an agent's worktree and keeps its branch. It does not check for work: call Save
// before it. A missing worktree is removed already.
func (w *Workspace) Remove(ctx context.Context, agent string) error {
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return err
	}
	defer done()
	return w.remove(ctx, agent)
}

func (w *Workspace) remove(ctx context.Context, agent string) error {
	if err := api.CheckName(agent); err != nil {
		return err
	}
	if err := w.uncovered(agent, api.CodeBadState); err != nil {
		return err
	}
	gone, err := w.moveAway(ctx, agent)
	w.racy.forget(agent)
	failpoint.Hit("worktree:away")
	if gone != "" {
		err = errors.Join(err, fdtree.RemoveAll(ctx, gone))
	}
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "remove the worktree of %s: %w", agent, err)
	}
	return nil
}

// moveAway moves all of a worktree to a directory of its own, which Sweep removes after a crash.
func (w *Workspace) moveAway(ctx context.Context, agent string) (gone string, err error) {
	done, err := w.lockMount(ctx, agent)
	if err != nil {
		return "", err
	}
	defer done()
	if err := w.Detach(agent); err != nil {
		return "", err
	}
	// Move it away first, so that an interrupted removal leaves no half of a worktree; then
	// delete the files.
	if gone, err = os.MkdirTemp(w.polis(), "save-"); err != nil {
		return "", err
	}
	if e := os.Rename(w.tree(agent), filepath.Join(gone, "worktree")); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = e
	}
	err = errors.Join(err, w.moveAdmin(agent, filepath.Join(gone, "gitdir")))
	// After the agent's changes: without the base below them they would seem to be all its files.
	if e := os.Rename(w.layout().Layers(agent), filepath.Join(gone, "layers")); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return gone, err
}

// Discard saves everything, then removes the worktree and deletes the branch. branch is the
// agent's own; the one its worktree is on if empty. The view must be unmounted.
func (w *Workspace) Discard(ctx context.Context, agent, branch string) (TrashRef, error) {
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return TrashRef{}, err
	}
	defer done()
	if err := api.CheckName(agent); err != nil {
		return TrashRef{}, err
	}
	if err := w.uncovered(agent, api.CodeBadState); err != nil {
		return TrashRef{}, err
	}
	saved, err := w.save(ctx, agent, SaveOptions{Branch: branch})
	if err != nil {
		return TrashRef{}, err
	}
	if why := saved.Partial(); why != nil {
		// The whole directory is kept.
		t := w.read(agent)
		t.Broken = why
		if _, err := w.moveToTrash(ctx, t); err != nil {
			return saved, err
		}
	}
	if err := w.remove(ctx, agent); err != nil {
		return saved, err
	}
	if branch == "" {
		branch = saved.Branch
	}
	return saved, w.DropBranch(ctx, branch, saved.Commit)
}

// DropBranch deletes a branch, if all its commits are reachable from the target branch or from
// kept, a commit or ref of the internal repository. A branch that does not exist is deleted
// already.
func (w *Workspace) DropBranch(ctx context.Context, branch, kept string) error {
	if branch == "" {
		return nil
	}
	if err := git.CheckBranch(branch); err != nil {
		return api.Errorf(api.CodeInvalidName, "%w", err)
	}
	target, err := w.Target(ctx)
	if err != nil {
		return err
	}
	if branch == target {
		return api.Errorf(api.CodeRefConflict, "branch %s is where merges go; it is not deleted", branch)
	}
	release, err := w.acquire(ctx, git.Branch(branch))
	if err != nil {
		return err
	}
	defer release()
	bare := w.Bare()
	tip, err := bare.Ref(ctx, git.Branch(branch))
	if errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "delete branch %s: %w", branch, err)
	}
	not := []string{tip, "--not", git.Branch(target)}
	if kept != "" {
		id, err := w.Internal().Commit(ctx, kept)
		if err != nil {
			return api.Errorf(api.CodeWorktreeFailed, "delete branch %s: what was kept of it: %w", branch, err)
		}
		not = append(not, id)
	}
	both := bare
	both.Alternates = []string{w.Internal().ObjectDir()} // where kept is
	lost, err := both.Count(ctx, not...)
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "delete branch %s: %w", branch, err)
	}
	if lost > 0 {
		return api.Errorf(api.CodeUnsavedWork, "branch %s has %s not on any other branch", branch, api.Count(lost, "commit"))
	}
	if err := bare.Delete(ctx, git.Branch(branch), tip); err != nil {
		return api.Errorf(api.CodeRefConflict, "delete branch %s: %w", branch, err)
	}
	return nil
}
