package daemon

import (
	"context"
	"io"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/git/worktree"
	"polis/daemon/merge"
)

// DryMerge returns what a merge would change.
func (r repo) DryMerge(ctx context.Context, a *agent.Agent) (agent.Preview, error) {
	if err := r.w.integrity.Damage(); err != nil {
		return agent.Preview{}, err
	}
	b, rules, err := r.w.gate(a.Name())
	if err != nil {
		return agent.Preview{}, err
	}
	req := merge.Request{Agent: a.Name(), Rules: rules}
	if err := r.w.source(ctx, b, &req); err != nil {
		return agent.Preview{}, err
	}
	res, err := r.w.merger.DryRun(r.w.d.charge(ctx, a.Name()), req)
	p := agent.Preview{Head: res.Merged, Paths: res.Paths, Branch: req.Branch, Elsewhere: req.Elsewhere}
	for _, f := range res.Protected {
		p.Protected = append(p.Protected, api.ProtectedPath{Path: f.Path, Reason: f.Why})
	}
	return p, err
}

// trailer names an agent in the message of a merge; "" for none.
func (d *Daemon) trailer(agent string) string {
	key := d.live().Git.Trailer
	if key == "" {
		return ""
	}
	return key + ": " + agent
}

// mustSign reports whether the merges of a workspace wait for a signature.
func (w *workspace) mustSign() bool {
	c := w.d.live()
	return *c.MergeRules(w.agents.Name).Sign
}

// ToSign returns the merge that a person signs.
func (r repo) ToSign(ctx context.Context, a *agent.Agent, req api.MergeRequest) (api.ToSign, error) {
	if err := r.w.integrity.Damage(); err != nil {
		return api.ToSign{}, err
	}
	b, rules, err := r.w.gate(a.Name())
	if err != nil {
		return api.ToSign{}, err
	}
	m := merge.Request{Agent: a.Name(), Message: req.Message, Rules: rules, AcceptProtected: req.AcceptProtected, Head: req.Head, Trailer: r.w.d.trailer(a.Name())}
	if err := r.w.source(ctx, b, &m); err != nil {
		return api.ToSign{}, err
	}
	s, err := r.w.merger.ToSign(r.w.d.charge(ctx, a.Name()), m)
	s.Project = a.WS.Project
	if p, perr := r.w.git.ReadRecord(); perr == nil && p.Named != "" {
		s.Project = p.Named // conditions of the person's configuration can be of that name
	}
	return s, err
}

// StoreSigned stores a commit that a person signed.
func (r repo) StoreSigned(ctx context.Context, a *agent.Agent, raw []byte) (string, error) {
	return r.w.merger.StoreSigned(r.w.d.charge(ctx, a.Name()), raw)
}

// Revert reverts a merge and fast-forwards the user's checkout.
func (r repo) Revert(ctx context.Context, _ *agent.Agent, commit string, dry bool) (agent.Reverted, error) {
	if err := r.w.integrity.Damage(); err != nil {
		return agent.Reverted{}, err
	}
	do := r.w.merger.Revert
	if dry {
		do = r.w.merger.DryRevert
	}
	res, err := do(ctx, commit)
	out := agent.Reverted{Commit: res.Commit, Paths: res.Paths, Later: res.Later}
	if dry || err != nil && api.CodeOf(err) != api.CodeNothingToMerge {
		return out, err
	}
	// The checkout is updated even if the merge was reverted before: a daemon can have died in
	// between.
	update, uerr := r.w.merger.UpdateCheckout(ctx)
	out.Project, out.Note = update.AfterRevert(uerr)
	out.Note = merge.NoteUnsigned(out.Note, r.w.mustSign())
	return out, err
}

// Sync fetches the user's new commits.
func (r repo) Sync(ctx context.Context) error {
	_, err := r.w.git.Sync(ctx)
	return err
}

// Diff writes an agent's changes to to.
func (r repo) Diff(ctx context.Context, a *agent.Agent, opt api.DiffRequest, to io.Writer) error {
	return r.w.git.Diff(r.w.d.charge(ctx, a.Name()), a.Name(), worktree.DiffOptions{Branch: a.Kept.Branch, Stat: opt.Stat, NameOnly: opt.NameOnly, Committed: opt.Committed}, to)
}

// Restore makes the worktree and the branch as they were. Work that was merged completely left no
// ref; its branch begins at its last commit.
func (r repo) Restore(ctx context.Context, a *agent.Agent, s agent.Saved) error {
	r.w.d.gits.Begin(a.Name())
	ctx = r.w.d.charge(ctx, a.Name())
	if s.Ref != "" {
		if err := r.judgeSaved(ctx, a, s.Ref); err != nil {
			return err
		}
		_, err := r.w.git.Restore(ctx, s.Ref, a.Name(), a.Kept.Branch)
		return err
	}
	if s.Copied {
		_, err := r.w.git.AddCopy(ctx, a.Name(), a.Kept.Branch, s.Head)
		return err
	}
	_, err := r.w.git.Add(ctx, a.Name(), a.Kept.Branch, s.Head)
	return err
}

// Newest returns the newest work of an agent in the trash.
func (r repo) Newest(ctx context.Context, name string) (agent.Saved, string, error) {
	list, err := r.w.git.Trash(ctx, name)
	if err != nil || len(list) == 0 {
		return agent.Saved{}, "", err
	}
	return agent.Saved{Ref: list[0].Ref, Head: list[0].Head}, list[0].Branch, nil
}

// GC removes saved work that is older than the configured time to live, or than the request sets.
func (b *backend) GC(ctx context.Context, req api.GCRequest) (api.GCResponse, error) {
	before, err := worktree.Expiry(req, time.Duration(b.live().Trash.TTL), b.Now())
	if err != nil {
		return api.GCResponse{}, err
	}
	resp := api.GCResponse{DryRun: req.DryRun, Removed: []api.TrashEntry{}, Kept: []api.TrashEntry{}}
	for _, w := range b.sorted("") {
		if !w.agents.Git {
			continue
		}
		removed, kept, err := w.git.GC(ctx, before, req.DryRun)
		for i := range removed {
			removed[i].Workspace = w.agents.Name
		}
		for i := range kept {
			kept[i].Workspace = w.agents.Name
		}
		resp.Removed, resp.Kept = append(resp.Removed, removed...), append(resp.Kept, kept...)
		if err != nil {
			return resp, err
		}
		if !req.DryRun {
			if err := b.ForgetRemoved(w.agents.Name, before); err != nil {
				return resp, err
			}
		}
	}
	return resp, nil
}
