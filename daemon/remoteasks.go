package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/remote"
)

// RemoteQuestion is what a person has to approve before the agent's request; nil if nothing. The
// agent's shim asks it, so that the question outlives polisd.
func (b *backend) RemoteQuestion(ctx context.Context, name string, req api.RemoteRequest) (*api.RemoteQuestion, error) {
	a, err := b.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	ws := b.gitWorkspaces(a.Workspace)
	rules := b.gitRules(a)
	if permitted := mayRemote(a, rules, req.Op) == nil; !permitted || req.Op == api.RemoteObjects || len(ws) == 0 || !asksFirst(rules, req.Op) {
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
		if allowed, _, err = w.pushJudge(ctx, a, rules, req.Remote).Split(ctx, req.Updates); err != nil || len(allowed) == 0 {
			return nil, err
		}
	}
	q := remoteQuestion(req, allowed)
	q.Note = "remote " + url
	return &q, nil
}

// approvedRemote refuses a request that needs an approval and has none, or has that of another.
func approvedRemote(rules config.GitRules, req api.RemoteRequest, allowed []api.RemoteUpdate, approved string) error {
	if !asksFirst(rules, req.Op) || remoteQuestion(req, allowed).Key == approved {
		return nil
	}
	return api.Errorf(api.CodeNotApproved, "%s of %s needs an approval that it has not", req.Op, api.Shorten(req.Remote, 64)).WithHint("try again: the rules have just changed")
}

// asksFirst reports whether an operation is one that the rules ask about. To list what a remote
// has, as git does before a push, counts as a fetch.
func asksFirst(rules config.GitRules, op string) bool {
	if op == api.RemotePush {
		return slices.Contains(rules.Ask, config.RemotePush)
	}
	return slices.Contains(rules.Ask, config.RemoteFetch)
}

// mayRemote refuses an operation that the agent is not permitted at all.
func mayRemote(a api.Agent, rules config.GitRules, op string) error {
	want := config.RemoteFetch
	if op == api.RemotePush {
		want = config.RemotePush
	}
	if a.Parent != "" {
		return api.Errorf(api.CodeForbidden, "agent %s may not %s: it is a worker of agent %s, and workers reach no remote", a.Name, want, a.Parent).
			WithHint("agent %s can do it", a.Parent)
	}
	if rules.Remote.Allows(want) {
		return nil
	}
	return api.Errorf(api.CodeForbidden, "agent %s may not %s: git.remote is %q for it", a.Name, want, rules.Remote).
		WithHint("an administrator allows it with remote = %q in [git], [roles.NAME.git] or [git.agents.%s] of polisd.toml", want, a.Name)
}

// remoteQuestion is the question about a request. Its text has the names of what a push moves, as
// git-push(1) writes them, so that an answer can be remembered; its detail has the commits.
func remoteQuestion(req api.RemoteRequest, allowed []api.RemoteUpdate) api.RemoteQuestion {
	q := api.RemoteQuestion{Text: "fetch " + req.Remote}
	if req.Op == api.RemotePush {
		names, lines := make([]string, 0, len(allowed)), make([]string, 0, len(allowed))
		for _, u := range allowed {
			name, commit := strings.TrimPrefix(u.Ref, "refs/heads/"), u.Commit
			switch {
			case u.Commit == "":
				name, commit = ":"+name, "(deletes it)"
			case u.Force:
				name = "+" + name
			}
			names, lines = append(names, name), append(lines, fmt.Sprintf("%s %s", u.Ref, commit))
		}
		slices.Sort(names)
		slices.Sort(lines)
		q.Text, q.Detail = "push "+req.Remote+" "+strings.Join(names, " "), strings.Join(lines, "\n")
	}
	if req.DryRun {
		q.Text += " --dry-run"
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q", q.Text, q.Detail))
	q.Key = hex.EncodeToString(h[:])
	return q
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
