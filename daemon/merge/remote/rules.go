package remote

import (
	"slices"

	"polis/daemon/api"
	"polis/daemon/config"
)

// Rules decide about the remote operations of one agent.
type Rules struct {
	Agent  string
	Parent string // the agent that started it, if it is a worker
	Git    config.GitRules
}

// Permit refuses an operation that the agent may never request.
func (r Rules) Permit(op string) error {
	want := permission(op)
	if r.Parent != "" {
		return api.Errorf(api.CodeForbidden, "agent %s may not %s: it is a worker of agent %s, and workers reach no remote", r.Agent, want, r.Parent).
			WithHint("agent %s can do it", r.Parent)
	}
	if r.Git.Remote.Allows(want) {
		return nil
	}
	return api.Errorf(api.CodeForbidden, "agent %s may not %s: git.remote is %q for it", r.Agent, want, r.Git.Remote).
		WithHint("an administrator allows it with remote = %q in [git], [roles.NAME.git] or [git.agents.%s] of polisd.toml", want, r.Agent)
}

// NeedsApproval reports whether a person must approve an operation before it is performed.
func (r Rules) NeedsApproval(op string) bool { return slices.Contains(r.Git.Ask, permission(op)) }

// CheckApproval refuses a request that needs an approval and has none, or has the approval of
// another request. allowed are the permitted updates of a push. approved is the key of the
// question that a person approved, "" if none.
func (r Rules) CheckApproval(req api.RemoteRequest, allowed []api.RemoteUpdate, approved string) error {
	if !r.NeedsApproval(req.Op) || OperationQuestion(req, allowed).Key == approved {
		return nil
	}
	return api.Errorf(api.CodeNotApproved, "%s of %s needs an approval that it has not", req.Op, api.Shorten(req.Remote, 64)).WithHint("try again: the rules have just changed")
}

// permission returns the setting that an operation needs. To list the refs of a remote, as git does
// before a push, counts as a fetch.
func permission(op string) config.Remote {
	if op == api.RemotePush {
		return config.RemotePush
	}
	return config.RemoteFetch
}
