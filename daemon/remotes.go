package daemon

import (
	"context"
	"os/user"
	"strconv"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/merge/remote"
)

func lookupUID(uid int) (*user.User, error) { return user.LookupId(strconv.Itoa(uid)) }

// broker returns the broker that talks to the remotes of a workspace.
func (w *workspace) broker() *remote.Broker {
	return &remote.Broker{Workspace: w.git, Home: func(uid uint32) string {
		if u, err := lookupUID(int(uid)); err == nil {
			return u.HomeDir
		}
		return ""
	}}
}

// Remote performs the remote operation that an agent's git requests, if the agent may. Only the
// agent's shim calls it. approved is the key of the question that a person has approved, if any.
func (b *backend) Remote(ctx context.Context, name string, req api.RemoteRequest, approved string, say func(string)) (api.RemoteResponse, error) {
	a, err := b.Get(ctx, name)
	if err != nil {
		return api.RemoteResponse{}, err
	}
	ws := b.gitWorkspaces(a.Workspace)
	if len(ws) == 0 {
		return api.RemoteResponse{}, api.Errorf(api.CodeBadState, "workspace %s is not a git repository", a.Workspace)
	}
	if req.Op == api.RemoteObjects {
		return b.objects(b.charge(ctx, name), ws[0], a.Name, req.Objects, approved == api.RemoteAsked)
	}
	ctx = b.charge(ctx, name)
	res, err := b.operation(ws[0], a, req).Do(ctx, approved, func(s git.Step) { say(s.String()) })
	b.Daemon.Log.Info("remote", "agent", name, "op", req.Op, "path", api.Shorten(req.Remote, 64), "updates", len(req.Updates), "refused", len(res.Refused), "err", err)
	b.hub.Publish(remote.OperationEvent(name, req, res, err))
	return res, err
}

// RemoteQuestion is what a person has to approve before the agent's request; nil if nothing. The
// agent's shim asks it, so that the question outlives polisd.
func (b *backend) RemoteQuestion(ctx context.Context, name string, req api.RemoteRequest) (*api.RemoteQuestion, error) {
	a, err := b.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	ws := b.gitWorkspaces(a.Workspace)
	if len(ws) == 0 {
		return nil, nil
	}
	ctx = b.charge(ctx, name)
	return b.operation(ws[0], a, req).Question(ctx)
}

// operation returns the operation that an agent requests, with the rules that are configured now.
func (b *backend) operation(w *workspace, a api.Agent, req api.RemoteRequest) remote.Operation {
	typ := config.BaseType{}
	if types, err := b.Types(); err == nil {
		typ = types[a.BaseType]
	}
	c := b.live()
	rules := remote.Rules{Agent: a.Name, Parent: a.Parent, Git: c.GitRules(a.Name, a.Role, typ)}
	return remote.Operation{Rules: rules, Request: req, Remotes: w.remote,
		Split: func(ctx context.Context, updates []api.RemoteUpdate) ([]api.RemoteUpdate, map[string]string, error) {
			return w.pushJudge(ctx, a, rules.Git, req.Remote).Split(ctx, updates)
		},
		Fetched: func(ctx context.Context) error { return b.updateFiltered(ctx, w, a.Name) }}
}
