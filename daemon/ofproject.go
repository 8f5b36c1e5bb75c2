package daemon

import (
	"context"
	"errors"
	"sync"

	"polis/daemon/agent"
	"polis/daemon/environment"
	"polis/daemon/git"
	"polis/daemon/remote"
	"polis/daemon/worktree"
	"polis/fusefs/gitdir"
)

// inspectOnce returns a function that inspects the project when it is first called.
func (r repo) inspectOnce() func(context.Context) (*worktree.Project, error) {
	var once sync.Once
	var p *worktree.Project
	var err error
	return func(ctx context.Context) (*worktree.Project, error) {
		once.Do(func() { p, err = r.w.git.Project(ctx) })
		return p, err
	}
}

// homeOf is the home of a user; "" if it is not known.
func homeOf(uid uint32) string {
	u, err := lookupUID(int(uid))
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// ofProject adds to an agent what it gets of the project's configuration: the identity of the user's commits
// and the remotes. What cannot be read is logged, and the agent starts without it.
func (r repo) ofProject(ctx context.Context, p *worktree.Project, a *agent.Agent) {
	a.Identity, a.Remotes = git.Idents{}, nil
	var who sync.WaitGroup
	who.Go(func() {
		ids, err := p.Identity(ctx, homeOf(p.Owner.UID))
		if err != nil {
			r.w.d.Log.Warn("identity of the project's owner not read; what is missing is the agent's own", "agent", a.Name(), "err", err)
		}
		a.Identity = ids
	})
	who.Go(func() { r.ignore(ctx, p, a) })
	defer who.Wait()
	settings, err := p.Settings(ctx)
	if err != nil {
		r.w.d.Log.Warn("remotes of the project not read; the agent has none", "agent", a.Name(), "err", err)
		return
	}
	for _, m := range remote.Of(p, settings) {
		a.Remotes = append(a.Remotes, agent.Remote{Name: m.Name, URL: m.URL})
	}
}

// ignore makes agents that begin from now on ignore what the git of the project's owner ignores. What cannot be read is logged.
func (r repo) ignore(ctx context.Context, p *worktree.Project, a *agent.Agent) (patterns string) {
	patterns, err := p.Ignored(ctx, homeOf(p.Owner.UID))
	r.w.ignoring.Lock()
	unset := environment.Below(a, func(at func(string) string) error {
		_, err := gitdir.Exclude(at(r.w.root.Bare()), patterns, a.WS.UID, a.WS.GID)
		return err
	})
	r.w.ignoring.Unlock()
	if err = errors.Join(err, unset); err != nil {
		r.w.d.Log.Warn("ignore rules of the project's owner do not all reach agents", "workspace", r.w.agents.Name, "err", err)
	}
	return patterns
}

// Refresh brings what the git of the project's owner ignores to an agent that is up.
func (r repo) Refresh(ctx context.Context, a *agent.Agent) (changed bool, err error) {
	p, err := r.w.git.Project(ctx)
	if err != nil || p == nil {
		return false, err
	}
	patterns := r.ignore(ctx, p, a)
	err = environment.Below(a, func(at func(string) string) error {
		changed, err = gitdir.Exclude(at(a.WS.Root.Private(a.Name())), patterns, a.WS.UID, a.WS.GID)
		return err
	})
	return changed, err
}
