package daemon

import (
	"context"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/merge/pullrequest"
)

// Pull pushes an agent's branch and opens a pull request with the credentials of the project's
// owner. Only the owner and root may use those credentials.
func (b *backend) Pull(ctx context.Context, caller uint32, name string, req api.PullRequest) (api.PullResponse, error) {
	if _, err := pullrequest.Validate(req); err != nil {
		return api.PullResponse{}, err
	}
	a, err := b.Get(ctx, name)
	if err != nil {
		return api.PullResponse{}, err
	}
	b.mu.Lock()
	w := b.workspaces[a.Workspace]
	b.mu.Unlock()
	if w == nil {
		return api.PullResponse{}, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", a.Workspace)
	}
	if err := w.agents.NeedsGit("there is no branch to push"); err != nil {
		return api.PullResponse{}, err
	}
	if a.ReadOnly {
		return api.PullResponse{}, agent.ReadOnly(name, "open a pull request")
	}
	if err := w.integrity.Damage(); err != nil {
		return api.PullResponse{}, err
	}
	_, rules, err := w.gate(name)
	if err != nil {
		return api.PullResponse{}, err
	}
	return w.pullRequests(b).Open(ctx, caller, a, rules, req)
}

func (w *workspace) pullRequests(b *backend) *pullrequest.Opener {
	return &pullrequest.Opener{Git: w.git, Target: w.agents.Target, UID: w.agents.UID, GID: w.agents.GID,
		CheckTrees: w.merger.CheckTrees, Publish: func(e api.Event) { w.d.hub.Publish(e) }, Log: w.d.Log,
		Lock: func(ctx context.Context) (func(), error) { return w.locks.AcquireExclusive(ctx, "a branch is pushed") },
		Home: func(uid uint32) string {
			u, err := lookupUID(int(uid))
			if err != nil {
				return ""
			}
			return u.HomeDir
		},
		Tasks: b.Tasks}
}
