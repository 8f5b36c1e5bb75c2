package daemon

import (
	"context"
	"maps"
	"slices"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
)

// bring brings the project's branches, tags and remote-tracking refs to the agents. made is an agent that is being made: its branch may
// be one of the project's.
func (r repo) bring(ctx context.Context, p *worktree.Project, made string) (worktree.Brought, error) {
	ws := r.w.agents.Name
	got, err := r.w.git.BringRefs(ctx, p, func(ref string) string { return r.w.d.agents.HolderOf(ws, ref, made) })
	if err == nil {
		r.reportKept(got.Kept)
	}
	return got, err
}

// reportKept publishes which refs of the project agents do not have, once for each change.
func (r repo) reportKept(kept map[string]string) {
	var lines []string
	for _, ref := range slices.Sorted(maps.Keys(kept)) {
		lines = append(lines, api.Shorten(strings.TrimPrefix(ref, "refs/"), 120)+": "+kept[ref])
	}
	text := strings.Join(lines, "; ")
	r.w.keptMu.Lock()
	known := r.w.kept
	r.w.kept = kept
	r.w.keptMu.Unlock()
	if maps.Equal(kept, known) || text == "" {
		return
	}
	text = api.Shorten(text, 2000)
	r.w.d.Log.Warn("refs of the project that agents do not have", "workspace", r.w.agents.Name, "refs", text)
	r.w.d.hub.Publish(api.Event{Type: api.EventProject, Message: "refs of the project that agents do not have: " + text,
		Data: map[string]any{"workspace": r.w.agents.Name, "refs": kept}})
}

// startOf brings the project's refs, and returns the commit at which the branch of an agent begins that is being made; "" for
// that of the target. If they cannot be brought, only a branch of the agent's own name is made: another can be one of the project's.
func (t worktrees) startOf(ctx context.Context, w *workspace, a *agent.Agent, inspect func(context.Context) (*worktree.Project, error)) (string, error) {
	base, named := a.Copy().Base, a.Named()
	p, err := inspect(ctx)
	if err == nil && p == nil {
		return base, nil
	}
	var got worktree.Brought
	if err == nil {
		got, err = repo{w}.bring(ctx, p, a.Making())
	}
	if err != nil && named {
		return "", err
	}
	if err != nil {
		t.d.Log.Warn("what the project has new does not all reach the agent", "agent", a.Name(), "err", err)
		return base, nil
	}
	a.Upstreams = upstreams(got.Upstream, a.Copy().Branch, a.WS.Target)
	if !named {
		return base, nil
	}
	return got.Start(a.Copy().Branch, p.Path)
}

// upstreams returns what the agent's branch and the target follow. A branch that the project has not follows what the target follows.
func upstreams(of map[string]worktree.Upstream, branch, target string) (out []agent.Upstream) {
	add := func(branch string, from worktree.Upstream) {
		if branch != "" && from.Remote != "" {
			out = append(out, agent.Upstream{Branch: branch, Remote: from.Remote, Ref: from.Ref})
		}
	}
	own, ok := of[branch]
	if !ok {
		own = of[target]
	}
	add(branch, own)
	add(target, of[target])
	return out
}

// HasBranch reports whether the workspace, or the project, has a branch of this name.
func (r repo) HasBranch(ctx context.Context, branch string) (bool, error) {
	if err := git.CheckBranch(branch); err != nil {
		return false, api.Errorf(api.CodeInvalidName, "%w", err).WithHint("use a name like feat/login")
	}
	refs := []git.Repo{r.w.git.Bare()}
	if !strings.HasPrefix(branch, "agent/") { // those of the project stay there
		p, err := r.w.git.Project(ctx)
		if err != nil {
			return false, err
		}
		if p != nil {
			refs = append(refs, p.Repo)
		}
	}
	for _, repo := range refs {
		ids, err := repo.Resolve(ctx, git.Branch(branch))
		if err != nil || ids[0] != "" {
			return err == nil, err
		}
	}
	return false, nil
}
