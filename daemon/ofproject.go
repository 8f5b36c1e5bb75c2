package daemon

import (
	"context"
	"errors"
	"sync"

	"polis/daemon/agent"
	"polis/daemon/agent/environment"
	"polis/daemon/git"
	"polis/daemon/git/excludes"
	"polis/daemon/git/worktree"
	"polis/daemon/merge/remote"
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

// ofProject adds to an agent what it gets of the configuration of the owner's git: the identity of commits, the remotes, and
// what is ignored. What cannot be read is logged, and the agent starts without it.
func (r repo) ofProject(ctx context.Context, p *worktree.Project, a *agent.Agent) {
	a.Identity, a.Remotes = git.Idents{}, nil
	var err error
	if a.LFS, err = r.w.git.LFSObjects(ctx, p); err != nil {
		r.w.d.Log.Warn("LFS objects of the project not found; the agent does not borrow them", "agent", a.Name(), "err", err)
	}
	o, err := p.OwnersGit(ctx, homeOf(p.Owner.UID))
	if err != nil {
		r.w.d.Log.Warn("configuration of the owner's git not read; the agent has no remotes, and an identity of its own", "agent", a.Name(), "err", err)
		return
	}
	if a.Identity, err = o.Identity(ctx); err != nil {
		r.w.d.Log.Warn("identity of the project's owner not read; what is missing is the agent's own", "agent", a.Name(), "err", err)
	}
	for _, m := range remote.Of(p, o.Remotes()) {
		a.Remotes = append(a.Remotes, agent.Remote{Name: m.Name, URL: m.URL})
	}
	r.ignore(o, a)
}

// ignore makes agents that begin from now on ignore what the git of the project's owner ignores. What cannot be read is logged.
func (r repo) ignore(o *worktree.OwnersGit, a *agent.Agent) (patterns string) {
	patterns, err := o.Ignored()
	r.w.ignoring.Lock()
	unset := environment.Below(a, func(at func(string) string) error {
		_, err := excludes.Set(at(r.w.root.Bare()), patterns, a.WS.UID, a.WS.GID)
		return err
	})
	r.w.ignoring.Unlock()
	if err = errors.Join(err, unset); err != nil {
		r.w.d.Log.Warn("ignore rules of the project's owner do not all reach agents", "workspace", r.w.agents.Name, "err", err)
	}
	return patterns
}

// Refresh brings the project's refs, and what the git of its owner ignores, to an agent that is up.
func (r repo) Refresh(ctx context.Context, a *agent.Agent) (changed bool, err error) {
	p, err := r.w.git.Project(ctx)
	if err != nil || p == nil {
		return false, err
	}
	brought, err := r.bring(ctx, p, "")
	if key := r.w.d.filteredOf(r.w, a.Name()); key != "" && brought.Moved > 0 {
		err = errors.Join(err, r.w.filter.Update(ctx, key))
	}
	o, oerr := p.OwnersGit(ctx, homeOf(p.Owner.UID))
	if oerr != nil {
		return false, errors.Join(err, oerr)
	}
	patterns := r.ignore(o, a)
	ierr := environment.Below(a, func(at func(string) string) error {
		var err error
		changed, err = excludes.Set(at(a.WS.Root.Private(a.Name())), patterns, a.WS.UID, a.WS.GID)
		return err
	})
	return changed, errors.Join(err, ierr)
}
