package daemon

import (
	"context"
	"sync"

	"polis/daemon/agent"
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

// ofProject returns what an agent gets of the project's configuration: the author of the user's commits
// and the remotes.
func (repo) ofProject(ctx context.Context, p *worktree.Project) (name, email string, remotes []agent.Remote, err error) {
	settings, err := p.Settings(ctx)
	if err != nil {
		return "", "", nil, err
	}
	name, email = p.Identity(ctx, settings, homeOf(p.Owner.UID))
	for _, m := range remote.Of(p, settings) {
		remotes = append(remotes, agent.Remote{Name: m.Name, URL: m.URL})
	}
	return name, email, remotes, nil
}
