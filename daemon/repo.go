package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/git/filtered"
	"polis/daemon/git/worktree"
	"polis/fusefs/fdtree"
	"polis/fusefs/shared"
)

// repo implements agent.Repo for a workspace.
type repo struct{ w *workspace }

func (r repo) Status(ctx context.Context, a *agent.Agent) (agent.WorktreeStatus, error) {
	if a.Kept.ReadOnly {
		return agent.WorktreeStatus{}, nil
	}
	st, err := r.w.git.Status(r.w.d.charge(ctx, a.Name()), a.Name(), a.Kept.Branch, worktree.View{})
	if err != nil {
		return agent.WorktreeStatus{}, err
	}
	k, err := r.work(ctx, a)
	if err != nil {
		return agent.WorktreeStatus{}, err
	}
	out := agent.WorktreeStatus{Dirty: st.Staged + st.Unstaged + st.Untracked + st.Conflicted, Paths: st.Paths, Unmerged: max(st.Ahead, k.Unmerged), Elsewhere: k.Elsewhere(a.Name(), a.Copy().Branch), Private: k.PrivateNames()}
	for _, n := range st.Nested {
		out.Nested = append(out.Nested, n.String())
	}
	if out.Worktrees, err = worktree.PrivateWorktrees(a.WS.Root.Private(a.Name())); err != nil {
		return out, err
	}
	// A stash is work that neither the branch nor the worktree contains.
	if stash, err := worktree.PrivateStash(a.WS.Root.Private(a.Name())); err != nil || stash != "" {
		out.Unmerged++
		return out, err
	}
	return out, nil
}

func (r repo) TargetFiles(ctx context.Context, each func(path string) error) error {
	if err := r.Sync(ctx); err != nil {
		r.w.d.Log.Warn("commits of the project not fetched", "workspace", r.w.agents.Name, "err", err)
	}
	target, err := r.w.git.Target(ctx)
	if err != nil {
		return err
	}
	bare := r.w.git.Bare()
	tip, err := bare.Ref(ctx, git.Branch(target))
	if errors.Is(err, git.ErrNotFound) {
		return nil // it has no commit yet
	}
	if err != nil {
		return err
	}
	return bare.Files(ctx, tip, func(path, _ string) error { return each(path) })
}

func (r repo) Head(ctx context.Context, a *agent.Agent) (string, error) {
	return r.w.git.Head(r.w.d.charge(ctx, a.Name()), a.Name())
}

func (r repo) Since(ctx context.Context, a *agent.Agent, base string) (agent.Work, error) {
	st, n, err := r.w.git.Since(r.w.d.charge(ctx, a.Name()), a.Name(), a.Copy().Branch, base, worktree.View{})
	if err != nil {
		return agent.Work{}, err
	}
	k, err := r.work(ctx, a)
	return agent.Work{Head: st.Head, Commits: n, Dirty: st.Staged + st.Unstaged + st.Untracked + st.Conflicted, Elsewhere: k.Elsewhere(a.Name(), a.Copy().Branch)}, err
}

// Forward only fetches for an agent whose rules withhold files: the history that it may read is
// chosen when it starts.
func (r repo) Forward(ctx context.Context, a *agent.Agent) (agent.Forwarded, error) {
	_, set, err := r.w.d.reading(a.Copy().Rules())
	if err != nil || !set.AllReadable() {
		r.logUnfetched(a, r.Sync(ctx))
		return agent.Forwarded{Kept: "its rules withhold files"}, err
	}
	f, unsynced, err := r.w.git.SyncForward(r.w.d.charge(ctx, a.Name()), a.Name(), a.Copy().Branch)
	r.logUnfetched(a, unsynced)
	return agent.Forwarded(f), err
}

func (r repo) Settle(ctx context.Context, a *agent.Agent) error {
	return filtered.Settle(r.w.d.charge(ctx, a.Name()), a.Copy().Rules(), r.w.d.live().Locks.TempNames, agentIndex{r.w, a.Name()})
}

// logUnfetched logs that the user's commits were not fetched before a task: it begins without them.
func (r repo) logUnfetched(a *agent.Agent, err error) {
	if err != nil {
		r.w.d.Log.Warn("commits of the project not fetched", "agent", a.Name(), "err", err)
	}
}

// Tree returns the ID of a commit's tree.
func (r repo) Tree(ctx context.Context, a *agent.Agent, commit string) (string, error) {
	return r.w.git.Tree(r.w.d.charge(ctx, a.Name()), a.Name(), commit)
}

func (r repo) DiffCommits(ctx context.Context, a *agent.Agent, base, head string, opt api.DiffRequest, to io.Writer) error {
	return r.w.git.DiffCommits(r.w.d.charge(ctx, a.Name()), a.Name(), base, head, worktree.DiffOptions{Stat: opt.Stat, NameOnly: opt.NameOnly}, to)
}

// Save saves nothing of an agent that is read-only: it has nothing of its own.
func (r repo) Save(ctx context.Context, a *agent.Agent, ignored bool) (agent.Saved, error) {
	if a.Kept.ReadOnly {
		return agent.Saved{}, nil
	}
	ctx = r.w.d.charge(ctx, a.Name())
	opt, err := r.keepOptions(ctx, a, ignored)
	if err != nil {
		return agent.Saved{}, err
	}
	t, partial, err := r.w.git.SaveWork(ctx, a.Name(), opt)
	return agent.Saved{Ref: t.Ref, Head: t.Head, Whole: partial}, err
}

func (r repo) DropBranch(ctx context.Context, a *agent.Agent, kept string) error {
	return r.w.git.DropBranch(r.w.d.charge(ctx, a.Name()), a.Kept.Branch, kept)
}

// worktrees is the resource that makes and removes the worktrees of agents.
type worktrees struct{ d *Daemon }

func (worktrees) Name() string { return "worktree" }

func (t worktrees) workspace(a *agent.Agent) *workspace {
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	return t.d.workspaces[a.WS.Name]
}

func (t worktrees) Ensure(ctx context.Context, a *agent.Agent) error {
	c, k := t.d.live(), a.Copy()
	a.Audited = c.AuditsFully(k.Name, k.Role)
	if w := t.workspace(a); w != nil {
		if err := w.git.Check(); err != nil {
			return err
		}
	}
	if !a.WS.Git {
		if err := os.MkdirAll(a.Worktree(), 0o755); err != nil {
			return api.Errorf(api.CodeWorktreeFailed, "make the mount point of agent %s: %w", a.Name(), err)
		}
		return nil
	}
	w := t.workspace(a)
	if w == nil {
		return api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", a.WS.Name)
	}
	// Starting git is most of the cost: the project is read in parallel.
	var project sync.WaitGroup
	var p *worktree.Project
	var herr error
	inspect := repo{w}.inspectOnce()
	project.Go(func() {
		var err error
		if p, err = inspect(ctx); err != nil {
			t.d.Log.Warn("project not read; the agent has no remotes and no identity of its owner", "agent", a.Name(), "err", err)
		} else if p != nil {
			repo{w}.ofProject(ctx, p, a)
			herr = t.findHooks(ctx, a, p)
		}
	})
	err := t.make(ctx, w, a, inspect)
	project.Wait()
	if err = cmp.Or(err, herr); err != nil {
		return err
	}
	if err := t.withhold(ctx, w, a); err != nil {
		return err
	}
	t.fillSubmodules(ctx, w, a, p)
	return t.mountLayers(ctx, w, a)
}

// make makes the worktree at the user's newest commits, and mounts its layers. A fork begins at the
// commit of another agent.
func (t worktrees) make(ctx context.Context, w *workspace, a *agent.Agent, inspect func(context.Context) (*worktree.Project, error)) error {
	if from := a.Copy().Restoring; from != nil && from.From != "" {
		// Nothing is needed of the project.
	} else if err := w.integrity.Damage(); err != nil {
		if _, there := os.Lstat(a.Worktree()); there != nil {
			return err
		}
		// An agent that has its files continues with them.
	} else if _, err := w.git.SyncWith(ctx, inspect); api.CodeOf(err) == api.CodeProjectChanged {
		return err
	} else if err != nil && api.CodeOf(err) != api.CodeRefConflict {
		return api.Errorf(api.CodeWorktreeFailed, "fetch the project's commits: %w", err)
	} else if err != nil {
		t.d.Log.Warn("project and shared repository have diverged", "workspace", a.WS.Name, "err", err)
	}
	base, err := t.startOf(ctx, w, a, inspect)
	if err != nil {
		return err
	}
	t.d.gits.Begin(a.Name())
	ctx = t.d.charge(ctx, a.Name())
	switch {
	case a.Kept.ReadOnly:
		_, err = w.git.AddReader(ctx, a.Name(), a.Kept.Base)
	case a.Copy().Status == api.StatusCreating:
		_, err = w.git.Add(ctx, a.Name(), a.Kept.Branch, base)
	default:
		_, err = w.git.Keep(ctx, a.Name(), a.Kept.Branch, a.Kept.Base)
	}
	if err != nil {
		return err
	}
	return w.git.Attach(ctx, a.Name())
}

// mountLayers prepares the layers of an agent's worktree, which are mounted below its view, for a shim
// that mounts them above it, if its rules allow that.
func (t worktrees) mountLayers(ctx context.Context, w *workspace, a *agent.Agent) error {
	// Rules that withhold a file do not apply to what is read from the base tree directly, and it is not
	// recorded.
	if t.d.live().Workspace.Layers != config.LayersAuto || a.Filtered != "" || a.Audited || a.Copy().Recording || a.Kept.ReadOnly {
		return nil
	}
	if err := w.git.AttachAbove(ctx, a.Name()); err != nil {
		t.d.Log.Warn("overlay not prepared for its place above the view; it stays below", "agent", a.Name(), "err", err)
		return w.git.Attach(ctx, a.Name())
	}
	return nil
}

// Remove removes the worktree and everything else that only the agent has. Unmerged work was saved
// before. Remove saves the work of an agent that was not completely made.
func (t worktrees) Remove(ctx context.Context, a *agent.Agent) error {
	if a.WS.Root == "" {
		return nil
	}
	w := t.workspace(a)
	if w != nil && a.WS.Git {
		if err := t.removeWorktree(t.d.charge(ctx, a.Name()), w, a); err != nil {
			return err
		}
	} else if err := os.Remove(a.Worktree()); err != nil && !os.IsNotExist(err) {
		return err
	}
	t.d.gits.Drop(a.Name())
	if err := t.removePrivate(ctx, a); err != nil || w == nil || !a.WS.Git {
		return err
	}
	return t.sweepFiltered(ctx, w, a.Name())
}

// removeWorktree removes the worktree. It first saves the content of an agent that was never complete,
// which nothing has saved yet.
func (worktrees) removeWorktree(ctx context.Context, w *workspace, a *agent.Agent) error {
	dir, err := w.git.RemoveSaved(ctx, a.Name(), a.Kept.ReadOnly, func() (partial, err error) {
		if a.Saved != nil {
			return a.Saved.Whole, nil
		}
		s, err := (repo{w}).Save(ctx, a, false)
		return s.Whole, err
	})
	if dir != "" {
		a.TrashDir = dir
	}
	return err
}

// removePrivate removes the agent's home, scratch directory, private git directory and the
// packages that only this agent has installed. The log stays.
func (worktrees) removePrivate(ctx context.Context, a *agent.Agent) error {
	private := a.WS.Root.Private(a.Name())
	for _, dir := range []string{private, private + ".locks", private + ".used", a.WS.Root.Home(a.Name()), a.WS.Root.Copied(a.Name()), a.WS.Root.Scratch(a.Name()), a.WS.Root.Overlay(a.Name())} {
		if err := fdtree.RemoveAll(ctx, dir); err != nil {
			return err
		}
	}
	_, err := shared.Sweep(ctx, a.WS.Root.Store())
	return err
}

// List returns none: a worktree without an agent is saved work, not residue.
func (worktrees) List(context.Context) ([]string, error) { return nil, nil }
