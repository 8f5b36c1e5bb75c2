package daemon

import (
	"context"
	"errors"
	"fmt"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/git/worktree"
)

// Snapshot saves what an agent's worktree has now, for a new agent. Its processes must not run
// meanwhile. If the worktree shares a base tree, and the agent may read all of it, its changes are
// copied; else they are saved in the trash.
func (r repo) Snapshot(ctx context.Context, a *agent.Agent, forNew string, ignored bool) (agent.Snapshot, error) {
	ctx = r.w.d.charge(ctx, a.Name())
	if _, set, err := r.w.d.reading(a.Copy().Rules()); err == nil && set.AllReadable() {
		c, err := r.w.git.CopyLayers(ctx, a.Name(), forNew, ignored)
		if !errors.Is(err, worktree.ErrNoCopy) {
			return agent.Snapshot{Copied: true, Head: c.Head, LeftOut: c.LeftOut}, err
		}
		r.w.d.Log.Debug("worktree not copied for a fork; it is saved", "agent", a.Name(), "err", err)
	}
	opt, err := saveOptions(a, ignored)
	if err != nil {
		return agent.Snapshot{}, err
	}
	opt.Keep = nil // a stash is not forked
	opt.Made, opt.Nested = !r.w.d.sharesTrees(), true
	t, err := r.w.git.Save(ctx, a.Name(), opt)
	if err != nil {
		return agent.Snapshot{}, err
	}
	out := agent.Snapshot{Ref: t.Ref, Head: t.Head, LeftOut: t.Large}
	switch {
	case len(t.Torn) > 0:
		err = fmt.Errorf("files changed while they were saved: %q", t.Torn[:min(len(t.Torn), 10)])
	case t.Head == "":
		err = api.Errorf(api.CodeWorktreeFailed, "its branch has no commit that can be read").WithHint("polisctl agents exec %s -- git status", a.Name())
	}
	return out, err
}

// DropSnapshot deletes what Snapshot saved.
func (r repo) DropSnapshot(ctx context.Context, forNew, ref string) error {
	err := r.w.git.DropCopy(ctx, forNew)
	if ref != "" {
		err = errors.Join(err, r.w.git.DropTrash(ctx, ref))
	}
	return err
}
