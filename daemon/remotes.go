package daemon

import (
	"context"
	"fmt"
	"os/user"
	"strconv"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/push"
	"polis/daemon/remote"
	"polis/daemon/remoterules"
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

// remotes returns the project's remotes as agents see them.
func (r repo) remotes(ctx context.Context) ([]agent.Remote, error) {
	p, err := r.w.git.Project(ctx)
	if err != nil || p == nil {
		return nil, err
	}
	list, err := remote.List(ctx, p)
	out := make([]agent.Remote, 0, len(list))
	for _, m := range list {
		out = append(out, agent.Remote{Name: m.Name, URL: m.URL})
	}
	return out, err
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
		return b.objects(b.charge(ctx, name), ws[0], a.Name, req.Objects)
	}
	res, err := b.remote(b.charge(ctx, name), ws[0], a, req, approved, say)
	ev := api.Event{Type: api.EventRemote, Agent: name, Message: fmt.Sprintf("agent %s: %s of %s", name, req.Op, api.Shorten(req.Remote, 64)),
		Data: map[string]any{"op": req.Op, "remote": api.Shorten(req.Remote, 64), "updates": req.Updates[:min(len(req.Updates), push.MaxUpdates)], "refused": res.Refused, "dry_run": req.DryRun}}
	if err != nil {
		ev.Code, ev.Message = api.CodeOf(err), ev.Message+": "+err.Error()
	}
	b.Daemon.Log.Info("remote", "agent", name, "op", req.Op, "path", api.Shorten(req.Remote, 64), "updates", len(req.Updates), "refused", len(res.Refused), "err", err)
	b.hub.Publish(ev)
	return res, err
}

func (b *backend) remoteRules(a api.Agent) remoterules.Rules {
	typ := config.BaseType{}
	if types, err := b.Types(); err == nil {
		typ = types[a.BaseType]
	}
	c := b.live()
	return remoterules.Rules{Agent: a.Name, Parent: a.Parent, Git: c.GitRules(a.Name, a.Role, typ)}
}

func (b *backend) remote(ctx context.Context, w *workspace, a api.Agent, req api.RemoteRequest, approved string, say func(string)) (api.RemoteResponse, error) {
	rules := b.remoteRules(a)
	if err := rules.Permit(req.Op); err != nil {
		return api.RemoteResponse{}, err
	}
	if req.Op != api.RemotePush {
		if err := rules.CheckApproval(req, nil, approved); err != nil {
			return api.RemoteResponse{}, err
		}
	}
	step := func(s git.Step) { say(s.String()) }
	switch req.Op {
	case api.RemoteRefs:
		return w.remote.Refs(ctx, req.Remote)
	case api.RemoteFetch:
		res, err := w.remote.Fetch(ctx, req.Remote, step)
		if err == nil {
			err = b.bringFiltered(ctx, w, a.Name)
		}
		return res, err
	case api.RemotePush:
		allowed, refused, err := w.pushJudge(ctx, a, rules.Git, req.Remote).Split(ctx, req.Updates)
		if err != nil || len(allowed) == 0 {
			return api.RemoteResponse{Refused: refused}, err
		}
		if err := rules.CheckApproval(req, allowed, approved); err != nil {
			return api.RemoteResponse{}, err
		}
		res, err := w.remote.Push(ctx, req.Remote, allowed, req.DryRun, step)
		for ref, why := range res.Refused {
			refused[ref] = why
		}
		res.Refused = refused
		return res, err
	}
	return api.RemoteResponse{}, api.Errorf(api.CodeBadRequest, "op = %q: must be refs, fetch or push", api.Shorten(req.Op, 32))
}
