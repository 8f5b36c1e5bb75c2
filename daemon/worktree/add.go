package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/failpoint"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

// checkoutTimeout bounds filling a worktree; undoTimeout bounds taking back
// what failed.
const (
	checkoutTimeout = 30 * time.Minute
	undoTimeout     = 30 * time.Second
)

// Add makes an agent's worktree on a branch, agent/<name> if branch is empty. A new branch starts
// at base, the target branch if empty; an existing branch is used unchanged. An agent that has
// its worktree already keeps it. What a crash left is moved to the trash first.
func (w *Workspace) Add(ctx context.Context, agent, branch, base string) (Worktree, error) {
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
	target, err := w.Target(ctx)
	if err != nil {
		return Worktree{}, err
	}
	if err := w.uncovered(agent, api.CodeWorktreeFailed); err != nil {
		return Worktree{}, err
	}
	switch has := w.read(agent); {
	case has.Broken == nil && (branch == "" || has.Branch == branch):
		return has, nil
	case has.Broken == nil:
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "%s has a worktree already, on branch %q", agent, has.Branch).
			WithHint("polisctl discard %s saves it in the trash", agent)
	case !errors.Is(has.Broken, errAbsent):
		if _, err := w.moveToTrash(ctx, has); err != nil {
			return Worktree{}, err
		}
	}
	if err := w.free(agent, name, target); err != nil {
		return Worktree{}, err
	}
	return w.create(ctx, agent, name, base, target)
}

// free rejects a branch that is a merge target or that another agent is on.
func (w *Workspace) free(agent, branch, target string) error {
	if branch == target {
		return api.Errorf(api.CodeRefConflict, "branch %s is where merges go; no agent works on it", branch).
			WithHint("leave --branch out, or name another one")
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
func (w *Workspace) create(ctx context.Context, agent, branch, base, target string) (Worktree, error) {
	bare := w.Bare()
	release, err := w.acquire(ctx, git.Branch(branch))
	if err != nil {
		return Worktree{}, err
	}
	defer release()

	start := ""
	tip, err := bare.Ref(ctx, git.Branch(branch))
	if errors.Is(err, git.ErrNotFound) {
		if base == "" {
			base = git.Branch(target)
		}
		if start, err = bare.Commit(ctx, base); err != nil {
			return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "start branch %s: %w", branch, err).
				WithHint("the base must be a branch, a tag or a commit of the workspace")
		}
		tip = start
	} else if err != nil {
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "find branch %s: %w", branch, err)
	}

	undo := func(cause error) (Worktree, error) {
		// It may have failed because the caller's context ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		err := errors.Join(w.dropLayers(ctx, agent), fdtree.RemoveAll(ctx, w.tree(agent)), fdtree.RemoveAll(ctx, w.admin(agent)))
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
	// The directory of worktrees is root's; each one belongs to the owner.
	if err := os.Mkdir(w.tree(agent), 0o755); err != nil {
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "make the worktree of %s: %w", agent, err)
	}
	if err := give(w.tree(agent), w.cfg.UID, w.cfg.GID); err != nil {
		return undo(api.Errorf(api.CodeWorktreeFailed, "make the worktree of %s: %w", agent, err))
	}
	failpoint.Hit("worktree:directory")
	if err := w.link(agent, branch, tip); err != nil {
		return undo(api.Errorf(api.CodeWorktreeFailed, "make the worktree of %s: %w", agent, err))
	}
	if start != "" {
		if err := bare.Update(ctx, git.Branch(branch), start, "", "branch: made for "+agent); err != nil {
			start = "" // the branch existed before and must stay
			return undo(w.addFailed(branch, agent, err))
		}
	}
	if w.cfg.Mounts != nil && w.cfg.Shared != nil && w.cfg.Shared() {
		err = w.fillShared(ctx, agent, tip)
	} else {
		err = w.fill(ctx, agent)
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

func (w *Workspace) addFailed(branch, agent string, err error) error {
	var exit *git.ExitError
	if errors.As(err, &exit) && (strings.Contains(exit.Stderr, "cannot lock ref") || strings.Contains(exit.Stderr, "cannot create")) {
		return api.Errorf(api.CodeRefConflict, "branch %s cannot be made: %w", branch, err).
			WithHint("a branch named like a folder of it exists (git cannot have both a and a/b): use --branch with another name")
	}
	return api.Errorf(api.CodeWorktreeFailed, "make the worktree of %s: %w", agent, err)
}

// moveToTrash moves what is left of a worktree to the trash directory, where a person can inspect
// it.
func (w *Workspace) moveToTrash(ctx context.Context, t Worktree) (dir string, err error) {
	done, err := w.lockMount(ctx, t.Agent)
	if err != nil {
		return "", err
	}
	defer done()
	dir, err = w.newTrashDir(t.Agent)
	if err != nil {
		return "", err
	}
	// What is moved are the agent's own changes; the copy of the record keeps the base below them.
	id, err := w.baseOf(t.Agent)
	if err == nil && id != "" {
		err = errors.Join(w.Detach(t.Agent), writeBase(filepath.Join(dir, trashBase), id))
	}
	if err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "move the rest of %s's old worktree to the trash: %w", t.Agent, err)
	}
	for from, to := range map[string]string{t.Path: "worktree", t.GitDir: "gitdir"} {
		if err := os.Rename(from, filepath.Join(dir, to)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", api.Errorf(api.CodeWorktreeFailed, "move the rest of %s's old worktree to the trash: %w", t.Agent, err)
		}
	}
	if err := linkObjects(w.ownDir(t.Agent), filepath.Join(dir, "objects")); err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "link the objects of %s in the trash: %w", t.Agent, err)
	}
	if id != "" {
		if err := fdtree.Cleanup(w.layout().Layers(t.Agent)); err != nil {
			return "", api.Errorf(api.CodeWorktreeFailed, "move the rest of %s's old worktree to the trash: %w", t.Agent, err)
		}
	}
	w.cfg.Log.Warn("broken worktree moved to the trash", "agent", t.Agent, "op", "heal", "path", dir, "err", t.Broken)
	return dir, nil
}

// linkObjects gives every object of an object directory a second name in another one, which it
// creates. A missing directory has none.
func linkObjects(from, to string) error {
	dirs, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if !d.IsDir() || len(d.Name()) != 2 && d.Name() != "pack" {
			continue
		}
		files, err := os.ReadDir(filepath.Join(from, d.Name()))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, d.Name()), 0o755); err != nil {
			return err
		}
		for _, f := range files {
			if !f.Type().IsRegular() {
				continue
			}
			if err := os.Link(filepath.Join(from, d.Name(), f.Name()), filepath.Join(to, d.Name(), f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// newTrashDir makes a directory in the trash that only root and the owner can enter.
func (w *Workspace) newTrashDir(agent string) (string, error) {
	if err := os.MkdirAll(w.trashDir(), 0o755); err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "make the trash directory: %w", err)
	}
	dir, err := os.MkdirTemp(w.trashDir(), agent+"."+w.cfg.Now().UTC().Format(stampFormat)+".")
	if err == nil {
		err = give(dir, w.cfg.UID, w.cfg.GID)
	}
	if err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "make a place in the trash: %w", err)
	}
	return dir, nil
}
