package daemon

import (
	"context"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/cleanup"
	"polis/daemon/remote"
	"polis/daemon/worktree"
)

// Measure reads the agent's worktree, branch and stash. Remotes are queried only if all else would
// let the agent go.
func (r repo) Measure(ctx context.Context, a *agent.Agent) cleanup.Measured {
	m := cleanup.Measured{Target: r.w.agents.Target}
	fail := func(err error) cleanup.Measured { m.Err = err; return m }
	if err := r.w.integrity.Damage(); err != nil {
		return fail(err)
	}
	k := a.Copy()
	if k.ReadOnly {
		return m // it has nothing of its own
	}
	st, err := r.w.git.Status(r.w.d.charge(ctx, k.Name), k.Name, k.Branch, worktree.View{})
	if err != nil {
		return fail(err)
	}
	m.Uncommitted, m.Unmerged = st.Staged+st.Unstaged+st.Untracked+st.Conflicted, st.Ahead
	stash, err := worktree.PrivateStash(a.WS.Root.Private(a.Name()))
	if err != nil {
		return fail(err)
	}
	m.Stash = stash != ""
	if !m.Elsewhere() {
		return m
	}
	tips, err := r.w.git.Tips(r.w.d.charge(ctx, k.Name), k.Name, k.Branch)
	if err != nil {
		return fail(err)
	}
	if m.Parent = r.parentHas(ctx, a, tips); m.Parent == "" {
		m.Query(ctx, projectRemotes{r}, tips, r.w.d.Log.With("workspace", r.w.agents.Name))
	}
	return m
}

// projectRemotes implements cleanup.Remotes.
type projectRemotes struct{ repo }

func (r projectRemotes) Names(ctx context.Context) ([]string, error) {
	p, err := r.w.git.Project(ctx)
	if err != nil || p == nil {
		return nil, nil //nolint:nilerr // a project that cannot be read has no remotes
	}
	list, err := remote.List(ctx, p)
	names := make([]string, 0, len(list))
	for _, of := range list {
		names = append(names, of.Name)
	}
	return names, err
}

func (r projectRemotes) DefaultHas(ctx context.Context, name string, tips []string) (bool, error) {
	return r.w.remote.DefaultHas(ctx, name, tips)
}

// cleanUp decides about the ephemeral agents whose work has ended, and returns the decisions. p.turn
// is held. asked: a person wants them measured now.
func (p *patroller) cleanUp(ctx context.Context, asked, dryRun bool) []api.Cleanup {
	out := p.rounds.Run(ctx, p.d.agents, asked, dryRun)
	if !dryRun && ctx.Err() == nil {
		p.settleCleanups(out)
	}
	return out
}

// cleanupDecided opens a case for work that only the agent has, and publishes a decision that is new.
func (d *Daemon) cleanupDecided(s cleanup.State, c api.Cleanup, news bool) {
	if c.Action == api.CleanupEscalate {
		d.openCase(cleanup.Case(s, c))
	}
	if !news {
		return
	}
	d.Log.Info("patrol decided about an agent whose work has ended", "agent", c.Agent, "status", c.Status, "action", c.Action, "done", c.Done, "reason", c.Skipped)
	d.hub.Publish(api.Event{Type: api.EventCleanup, Agent: c.Agent, Message: c.Text(), Data: map[string]any{"cleanup": c}})
}

// settleCleanups resolves the cases of agents whose work is not escalated any more.
func (p *patroller) settleCleanups(now []api.Cleanup) {
	p.d.settleCases(func(o api.Case) bool { return p.rounds.Settles(o, now) }, cleanup.Settled)
}

// tipsOf returns the commits of an agent's branch, of the target and of its parent's branch, as they
// were read last.
func (d *Daemon) tipsOf(ctx context.Context, s cleanup.State) cleanup.Tips {
	d.mu.Lock()
	w := d.workspaces[s.Workspace]
	d.mu.Unlock()
	if w == nil || w.branches == nil {
		return cleanup.Tips{}
	}
	tips, err := w.branches.Last(ctx)
	if err != nil {
		return cleanup.Tips{}
	}
	return cleanup.Tips{Branch: tips.Of[s.Agent], Target: tips.Onto, Parent: tips.Of[d.agents.ParentOf(s.Agent)]}
}
