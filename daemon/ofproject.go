package daemon

import (
	"context"
	"sync"

	"polis/daemon/agent"
)

// ofProject returns what an agent gets of the project's configuration: the author of the user's commits
// and the remotes.
func (r repo) ofProject(ctx context.Context) (name, email string, remotes []agent.Remote, err error) {
	p, err := r.w.git.Project(ctx)
	if err != nil || p == nil {
		return "", "", nil, err
	}
	home := ""
	if u, err := lookupUID(int(p.Owner.UID)); err == nil {
		home = u.HomeDir
	}
	var both sync.WaitGroup
	both.Go(func() { name, email = p.Identity(ctx, home) })
	remotes, err = remotesOf(ctx, p)
	both.Wait()
	return name, email, remotes, err
}
