package worktree

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// checkoutTimeout bounds filling a worktree; undoTimeout bounds undoing
// what failed.
const (
	checkoutTimeout = 30 * time.Minute
	undoTimeout     = 30 * time.Second
)

// Add makes an agent's worktree on a branch, agent/<name> if branch is empty. A new branch starts
// at base, the target branch if empty; an existing branch is used unchanged. An agent that has
// its worktree already keeps it. What a crash left is moved to the trash first.
func (w *Workspace) Add(ctx context.Context, agent, branch, base string) (Worktree, error) {
	return w.add(ctx, agent, branch, base, func(on string) bool { return branch == "" || on == branch }, false)
}

// Keep is Add for an agent that had its worktree before: it keeps the worktree on whatever it has
// checked out. During a rebase HEAD is detached, and the agent can have made another branch.
func (w *Workspace) Keep(ctx context.Context, agent, branch, base string) (Worktree, error) {
	return w.add(ctx, agent, branch, base, func(string) bool { return true }, false)
}

// add is Add; fits reports whether an agent that has a worktree can have it on this branch. If copied is
// set, the files are those that CopyLayers has copied.
func (w *Workspace) add(ctx context.Context, agent, branch, base string, fits func(on string) bool, copied bool) (Worktree, error) {
	if err := api.CheckName(agent); err != nil {
		return Worktree{}, err
	}
	name := branch
	if name == "" {
		name = "agent/" + agent
	}
	if err := git.CheckBranch(name); err != nil {
		return Worktree{}, api.Errorf(api.CodeInvalidName, "%w", err).
			WithHint("use a name like agent/%s", agent)
	}
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return Worktree{}, err
	}
	defer done()
	has, target, err := w.existing(ctx, agent, fits)
	if err != nil || has.Path != "" {
		return has, err
	}
	if err := w.free(agent, name, target); err != nil {
		return Worktree{}, err
	}
	return w.create(ctx, agent, name, base, target, copied)
}

// existing returns the worktree that an agent has already, if its branch fits, and the target branch.
// If there is none, what a crash left was moved to the trash.
func (w *Workspace) existing(ctx context.Context, agent string, fits func(branch string) bool) (Worktree, string, error) {
	target, err := w.Target(ctx)
	if err != nil {
		return Worktree{}, "", err
	}
	if err := w.uncovered(agent, api.CodeWorktreeFailed); err != nil {
		return Worktree{}, "", err
	}
	switch has := w.read(agent); {
	case has.Broken == nil && fits(has.Branch):
		return has, target, nil
	case has.Broken == nil:
		return Worktree{}, "", api.Errorf(api.CodeWorktreeFailed, "%s has a worktree already, on branch %q", agent, has.Branch).
			WithHint("polisctl discard %s saves it in the trash", agent)
	case !errors.Is(has.Broken, errAbsent):
		dir, err := w.moveToTrash(ctx, has)
		if err != nil {
			return Worktree{}, "", err
		}
		if w.cfg.Trashed != nil {
			w.cfg.Trashed(agent, dir, has.Broken)
		}
	}
	return Worktree{}, target, nil
}

// free rejects a branch that is a merge target or that another agent is on.
func (w *Workspace) free(agent, branch, target string) error {
	if branch == target {
		return api.Errorf(api.CodeRefConflict, "branch %s is where merges go; no agent works on it", branch).
			WithHint("name another branch")
	}
	taken := w.cfg.Taken
	if taken == nil {
		list, err := w.List()
		if err != nil {
			return err
		}
		taken = func(branch, _ string) string {
			for _, t := range list {
				if t.Branch == branch {
					return t.Agent
				}
			}
			return ""
		}
	}
	if by := taken(branch, agent); by != "" {
		return api.Errorf(api.CodeRefConflict, "branch %s is checked out by agent %s", branch, by).
			WithHint("two agents cannot work on one branch: name another one").With("agent", by)
	}
	return nil
}

// create makes branch and worktree; if it fails, it leaves nothing.
func (w *Workspace) create(ctx context.Context, agent, branch, base, target string, copied bool) (Worktree, error) {
	bare := w.Bare()
	release, err := w.acquire(ctx, git.Branch(branch))
	if err != nil {
		return Worktree{}, err
	}
	defer release()

	if base == "" {
		base = git.Branch(target)
	}
	// One command: starting git is most of the cost.
	ids, err := bare.Resolve(ctx, git.Branch(branch), base+"^{commit}", base+"^{tree}")
	if err != nil {
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "find branch %s: %w", branch, err)
	}
	start, tip, tree := "", ids[0], ""
	if tip == "" {
		if start, tree = ids[1], ids[2]; start == "" {
			return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "start branch %s: %s: %w", branch, api.Shorten(base, 200), git.ErrNotFound).
				WithHint("the base must be a branch, a tag or a commit of the workspace")
		}
		tip = start
	}

	undo := func(cause error) (Worktree, error) {
		// It may have failed because the caller's context ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		err := w.drop(ctx, agent)
		if start != "" {
			if gone := bare.Delete(ctx, git.Branch(branch), start); gone != nil {
				if _, look := bare.Ref(ctx, git.Branch(branch)); !errors.Is(look, git.ErrNotFound) {
					err = errors.Join(err, gone)
				}
			}
		}
		if err != nil {
			w.cfg.Log.Error("failed worktree not undone", "agent", agent, "op", "worktree add", "path", w.tree(agent), "err", err)
		}
		return Worktree{}, cause
	}
	// Nobody else makes a directory of this name; undo removes it.
	if _, err := os.Lstat(w.tree(agent)); !errors.Is(err, fs.ErrNotExist) {
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "make the worktree of %s: %w", agent, cmp.Or(err, fs.ErrExist))
	}
	place := w.place
	if copied {
		place = w.placeCopy
	}
	if err := place(agent, branch, tip); err != nil {
		return undo(api.Errorf(api.CodeWorktreeFailed, "make the worktree of %s: %w", agent, err))
	}
	if start != "" {
		if err := bare.Update(ctx, git.Branch(branch), start, "", "branch: made for "+agent); err != nil {
			start = "" // the branch existed before and must stay
			return undo(w.addFailed(branch, agent, err))
		}
	}
	switch {
	case copied:
		err = w.finishCopy(ctx, agent)
	case w.made(agent) == nil && w.cfg.Mounts != nil && w.cfg.Shared != nil && w.cfg.Shared():
		err = w.fillShared(ctx, agent, tip, tree)
	default:
		err = w.fill(ctx, agent, tip)
	}
	if err != nil {
		return undo(w.addFailed(branch, agent, err))
	}
	failpoint.Hit("worktree:made")
	made := w.read(agent)
	if made.Broken != nil {
		return undo(api.Errorf(api.CodeWorktreeFailed, "git made a worktree for %s that it cannot use: %w", agent, made.Broken))
	}
	w.cfg.Log.Info("worktree made", "agent", agent, "op", "worktree add", "path", made.Path)
	return made, nil
}

// drop deletes all of a worktree that was not completely made.
func (w *Workspace) drop(ctx context.Context, agent string) error {
	return errors.Join(w.dropLayers(ctx, agent), fdtree.RemoveAll(ctx, w.tree(agent)), w.removeAdmin(ctx, agent))
}

// place makes the directory of a worktree and links it to the repository. The directory of worktrees is
// root's; each one belongs to the owner.
func (w *Workspace) place(agent, branch, commit string) error {
	if err := os.Mkdir(w.tree(agent), 0o755); err != nil {
		return err
	}
	if err := give(w.tree(agent), w.cfg.UID, w.cfg.GID); err != nil {
		return err
	}
	failpoint.Hit("worktree:directory")
	return w.link(agent, branch, commit)
}

func (w *Workspace) addFailed(branch, agent string, err error) error {
	var exit *git.ExitError
	if errors.As(err, &exit) && (strings.Contains(exit.Stderr, "cannot lock ref") || strings.Contains(exit.Stderr, "cannot create")) {
		return api.Errorf(api.CodeRefConflict, "branch %s cannot be made: %w", branch, err).
			WithHint("a branch named like a folder of it exists (git cannot have both a and a/b): name another branch")
	}
	return api.Errorf(api.CodeWorktreeFailed, "make the worktree of %s: %w", agent, err)
}
