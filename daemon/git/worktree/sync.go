package worktree

import (
	"context"
	"errors"
	"sync"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Synced is the result of Sync.
type Synced struct {
	Target  string
	Moved   bool   // the shared repository's target branch was fast-forwarded
	Commit  string // where the target branch is now
	Behind  bool   // the project lacks commits the shared repository has
	Project bool   // false: the project has no such branch, or is no repository
}

// Sync fetches the commits the user made on the target branch into the shared repository. If both
// sides have commits of their own, it changes nothing and returns REF_CONFLICT.
func (w *Workspace) Sync(ctx context.Context) (Synced, error) { return w.SyncWith(ctx, w.Project) }

// SyncWith is Sync for a caller that needs the project too: inspect returns what Project does.
func (w *Workspace) SyncWith(ctx context.Context, inspect func(context.Context) (*Project, error)) (Synced, error) {
	target, err := w.Target(ctx)
	if err != nil {
		return Synced{}, err
	}
	release, err := w.acquire(ctx, git.Branch(target))
	if err != nil {
		return Synced{}, err
	}
	defer release()
	return w.SyncLockedWith(ctx, target, inspect)
}

// SyncLockedWith is SyncWith for a caller that holds the lease of the target branch.
func (w *Workspace) SyncLockedWith(ctx context.Context, target string, inspect func(context.Context) (*Project, error)) (Synced, error) {
	s := Synced{Target: target}
	bare, ref := w.Bare(), git.Branch(target)
	// Starting git is most of the cost: both repositories are read in parallel.
	var has string
	var lost error
	var asked sync.WaitGroup
	asked.Go(func() { has, lost = bare.Ref(ctx, ref) })
	p, err := inspect(ctx)
	var theirs string
	var unknown error
	if err == nil && p != nil {
		theirs, unknown = p.Ref(ctx, ref)
	}
	asked.Wait()
	if lost != nil {
		return s, api.Errorf(api.CodeRepoCorrupt, "the shared repository has lost its target branch %s: %w", target, lost)
	}
	s.Commit = has
	if err != nil || p == nil {
		return s, err
	}
	if errors.Is(unknown, git.ErrNotFound) {
		return s, nil
	}
	if unknown != nil {
		return s, api.Errorf(api.CodeWorkspaceInvalid, "read branch %s of the project: %w", target, unknown)
	}
	s.Project = true
	if theirs == has {
		return s, nil
	}
	if err := git.Copy(ctx, p.Repo, bare, []string{theirs}); err != nil {
		return s, api.Errorf(api.CodeWorkspaceInvalid, "fetch the project's commits: %w", err)
	}
	if ahead, err := bare.IsAncestor(ctx, has, theirs); err != nil {
		return s, api.Errorf(api.CodeRepoCorrupt, "compare %s with the project: %w", target, err)
	} else if ahead {
		if err := bare.Update(ctx, ref, theirs, has, "polis: commits from the project"); err != nil {
			return s, api.Errorf(api.CodeRefConflict, "bring branch %s forward: %w", target, err)
		}
		s.Moved, s.Commit = true, theirs
		w.cfg.Log.Info("target branch followed the project", "op", "sync", "path", ref)
		return s, nil
	}
	if behind, err := bare.IsAncestor(ctx, theirs, has); err != nil {
		return s, api.Errorf(api.CodeRepoCorrupt, "compare %s with the project: %w", target, err)
	} else if behind {
		s.Behind = true
		return s, nil
	}
	// Both sides stay reachable for both, so that the user can merge them.
	if err := bare.UpdateAll(ctx, map[string]string{"refs/polis/project/" + target: theirs}, "polis: diverged"); err != nil {
		return s, api.Errorf(api.CodeRepoCorrupt, "keep the project's commits: %w", err)
	}
	if err := w.Publish(ctx, p, target, has, ""); err != nil {
		return s, err
	}
	return s, api.Errorf(api.CodeRefConflict, "branch %s of the project and of the workspace have gone different ways", target).
		WithHint("join them in the project: git -C %s merge refs/remotes/polis/%s (or rebase onto it), then try again", p.Path, target).
		With("project", theirs).With("workspace", has)
}

// Publish makes a commit reachable in the project as refs/remotes/polis/<target>.
// since is an ancestor of it that a ref of the project has, if one is known.
func (w *Workspace) Publish(ctx context.Context, p *Project, target, commit, since string) error {
	copied := func() error { return git.Copy(ctx, w.Bare(), p.Repo, []string{commit}) }
	switch since {
	case "":
	case commit:
		copied = func() error { return nil }
	default:
		copied = func() error { return git.CopySince(ctx, w.Bare(), p.Repo, []string{commit}, since) }
	}
	if err := copied(); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "bring the commits to the project: %w", err)
	}
	if err := p.UpdateAll(ctx, map[string]string{"refs/remotes/polis/" + target: commit}, "polis: fetch"); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "show the commits in the project: %w", err)
	}
	return nil
}
