package daemon

import (
	"context"
	"sync"

	"polis/daemon/agent"
	"polis/daemon/git"
	"polis/daemon/remote"
	"polis/daemon/worktree"
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
