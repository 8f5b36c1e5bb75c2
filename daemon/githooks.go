package daemon

import (
	"cmp"
	"context"
	"errors"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/git/githooks"
	"polis/daemon/git/worktree"
	"polis/daemon/merge/check"
	"polis/daemon/workspace/projectcheck"
)

// projectOf is a project for package githooks.
func projectOf(p *worktree.Project) githooks.Project {
	return githooks.Project{Repo: p.Repo, Path: p.Path, Git: p.CommonDir(), UID: p.Owner.UID, GID: p.Owner.GID, Open: p.Open}
}

// mergeHooks returns the git hooks that run for a merge.
func (w *workspace) mergeHooks(ctx context.Context) (*check.Hooks, error) {
	p, err := w.git.Project(ctx)
	if err != nil || p == nil {
		return nil, cmp.Or(err, errNoProject)
	}
	found, _, err := hooksOf(ctx, p)
	if err != nil {
		return nil, err
	}
	h := &check.Hooks{Bare: w.git.Bare(), Found: found}
	if h.Target, err = w.git.Target(ctx); err != nil {
		return nil, err
	}
	h.Source, err = projectOf(p).Source()
	return h, err
}

var errNoProject = errors.New("the project is no git repository any more")

// hooksOf returns the git hooks that the owner's git runs in the project, and the settings that name them.
func hooksOf(ctx context.Context, p *worktree.Project) (*wire.GitHooks, githooks.Settings, error) {
	s, err := githooks.ReadSettings(ctx, p, homeOf(p.Owner.UID))
	if err != nil {
		return nil, s, err
	}
	h, err := githooks.Find(ctx, projectOf(p), s)
	return h, s, err
}

// findHooks finds the hooks for an agent that starts. Without them an agent starts only if they would not run.
func (t worktrees) findHooks(ctx context.Context, a *agent.Agent, p *worktree.Project) error {
	c, k := t.d.live(), a.Copy()
	if k.ReadOnly { // it commits nothing
		return nil
	}
	h, _, err := hooksOf(ctx, p)
	a.Hooks.Store(h)
	if err == nil {
		return nil
	}
	if c.GitRules(k.Name, k.Role, a.Type).Hooks == config.HooksRun {
		return api.Errorf(api.CodeWorktreeFailed, "git.hooks is \"run\": %w", err)
	}
	t.d.Log.Warn("git hooks of the project not found", "agent", a.Name(), "err", err)
	return nil
}

// ownersNotices reports what the git of the project's owner does that agents' git and merges do not.
func (w *workspace) ownersNotices(ctx context.Context) (notices []string) {
	if !w.agents.Git {
		return nil
	}
	p, err := w.git.Project(ctx)
	if err != nil || p == nil {
		return nil // reported elsewhere
	}
	h, s, err := w.hooks(ctx, p)
	if err != nil {
		w.d.Log.Warn("git configuration of the project's owner not read", "workspace", w.agents.Name, "err", err)
		return []string{"polis cannot tell whether the project has git hooks: " + err.Error()}
	}
	for _, text := range []string{githooks.Notice(h), githooks.SignNotice(s, w.mustSign())} {
		if text != "" {
			notices = append(notices, text)
		}
	}
	return append(notices, projectcheck.Notices(projectcheck.OwnersGit(ctx, p, homeOf(p.Owner.UID), w.target()))...)
}

// hooks is hooksOf, with whether the hooks run for agents.
func (w *workspace) hooks(ctx context.Context, p *worktree.Project) (*wire.GitHooks, githooks.Settings, error) {
	h, s, err := hooksOf(ctx, p)
	if h != nil {
		h.Run = w.d.live().Git.Hooks == config.HooksRun
	}
	return h, s, err
}
