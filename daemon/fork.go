package daemon

import (
	"context"
	"fmt"
	"slices"

	"polis/daemon/agent"
	"polis/daemon/api"
)

// Snapshot saves what an agent's worktree has now. Its processes must not run meanwhile.
func (r repo) Snapshot(ctx context.Context, a *agent.Agent, ignored bool) (agent.Snapshot, error) {
	opt, err := saveOptions(a, ignored)
	if err != nil {
		return agent.Snapshot{}, err
	}
	opt.Keep = nil // a stash is not forked
	t, err := r.w.git.Save(r.w.d.charge(ctx, a.Name()), a.Name(), opt)
	if err != nil {
		return agent.Snapshot{}, err
	}
	out := agent.Snapshot{Ref: t.Ref, Head: t.Head, LeftOut: slices.Concat(t.Nested, t.Large)}
	switch {
	case len(t.Torn) > 0:
		err = fmt.Errorf("files changed while they were saved: %q", t.Torn[:min(len(t.Torn), 10)])
	case t.Head == "":
		err = api.Errorf(api.CodeWorktreeFailed, "its branch has no commit that can be read").WithHint("polisctl agents exec %s -- git status", a.Name())
	}
	return out, err
}

// DropSnapshot deletes what Snapshot saved.
func (r repo) DropSnapshot(ctx context.Context, ref string) error { return r.w.git.DropTrash(ctx, ref) }
