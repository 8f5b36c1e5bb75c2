package daemon

import (
	"context"
	"errors"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/git/worktree"
	"polis/daemon/merge"
)

// work is the committed work of an agent: what a merge takes, and what it leaves.
func (r repo) work(ctx context.Context, a *agent.Agent) (worktree.Work, error) {
	k := a.Copy()
	if k.ReadOnly {
		return worktree.Work{Branch: k.Branch}, nil
	}
	return r.w.work(ctx, k.Name, agent.Branch{Name: k.Branch, Owned: k.OwnedRefs, Policy: k.Rules()})
}

func (w *workspace) work(ctx context.Context, name string, b agent.Branch) (worktree.Work, error) {
	whole := w.d.wholly(b.Policy)
	return w.git.Work(w.d.charge(ctx, name), worktree.WorkQuery{Agent: name, Branch: b.Name, Owned: b.Owned, Whole: whole})
}

// wholly reports whether rules withhold no file of an agent's git.
func (d *Daemon) wholly(p api.Policy) bool {
	_, set, err := d.reading(p)
	return err == nil && set.AllReadable()
}

// source sets what a merge of an agent takes, and what it leaves.
func (w *workspace) source(ctx context.Context, b agent.Branch, req *merge.Request) error {
	k, err := w.work(ctx, req.Agent, b)
	if err != nil {
		return err
	}
	req.Branch, req.Commit, req.Elsewhere = k.Branch, k.Commit, k.Elsewhere(req.Agent, b.Name)
	if req.Commit == "" {
		return nil
	}
	return w.git.PublishHead(w.d.charge(ctx, req.Agent), req.Agent, req.Commit)
}

func saveOptions(a *agent.Agent, ignored bool) (worktree.SaveOptions, error) {
	opt := worktree.SaveOptions{Branch: a.Kept.Branch, Ignored: ignored}
	stash, err := worktree.PrivateStash(a.WS.Root.Private(a.Name()))
	if stash != "" {
		opt.Keep = []string{stash}
	}
	return opt, err
}

// keepOptions is saveOptions with the commits on the other branches of the agent.
func (r repo) keepOptions(ctx context.Context, a *agent.Agent, ignored bool) (worktree.SaveOptions, error) {
	opt, err := saveOptions(a, ignored)
	if err != nil {
		return opt, err
	}
	if err := opt.KeepRefs(a.WS.Root.Private(a.Name())); err != nil {
		return opt, err
	}
	k, err := r.work(ctx, a)
	switch {
	case api.CodeOf(err) == api.CodeWorktreeMissing:
		err = nil // the branch is saved
	case err != nil && ctx.Err() == nil: // the agent can damage it; all that is there is kept then
		opt.Unread, err = errors.Join(opt.Unread, err), nil
	}
	for _, e := range k.Rest {
		opt.Keep = append(opt.Keep, e.Tip)
	}
	return opt, err
}
