package daemon

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/remote"
	"polis/daemon/remoterules"
)

// RemoteQuestion is what a person has to approve before the agent's request; nil if nothing. The
// agent's shim asks it, so that the question outlives polisd.
func (b *backend) RemoteQuestion(ctx context.Context, name string, req api.RemoteRequest) (*api.RemoteQuestion, error) {
	a, err := b.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	ws := b.gitWorkspaces(a.Workspace)
	rules := b.remoteRules(a)
	if permitted := rules.Permit(req.Op) == nil; !permitted || req.Op == api.RemoteObjects || len(ws) == 0 || !rules.NeedsApproval(req.Op) {
		return nil, nil
	}
	w := ws[0]
	ctx = b.charge(ctx, name)
	url, err := w.remoteURL(ctx, req.Remote)
	if err != nil {
		return nil, err
	}
	var allowed []api.RemoteUpdate
	if req.Op == api.RemotePush {
		// The question is about what would be done, not about what is refused anyway.
		if allowed, _, err = w.pushJudge(ctx, a, rules.Git, req.Remote).Split(ctx, req.Updates); err != nil || len(allowed) == 0 {
			return nil, err
		}
	}
	q := remoterules.Question(req, allowed)
	q.Note = "remote " + url
	return &q, nil
}

// remoteURL is the address of a remote of the project, without secrets.
func (w *workspace) remoteURL(ctx context.Context, name string) (string, error) {
	p, err := w.git.Project(ctx)
	if err != nil {
		return "", err
	}
	if p == nil {
		return "", api.Errorf(api.CodeBadState, "the project is not a git repository: it has no remotes")
	}
	list, err := remote.List(ctx, p)
	if err != nil {
		return "", api.Errorf(api.CodeWorkspaceInvalid, "read the project's remotes: %w", err)
	}
	for _, r := range list {
		if r.Name == name {
			return r.URL, nil
		}
	}
	return "", api.Errorf(api.CodeNotFound, "the project has no remote %q", api.Shorten(name, 64))
}
