package daemon

import (
	"context"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/merge/remote"
	"polis/daemon/patrol/cleanup"
)

// Measure measures the agent's worktree, branch and stash.
func (r repo) Measure(ctx context.Context, a *agent.Agent) cleanup.Measured {
	if a.Copy().ReadOnly { // it has nothing of its own
		return cleanup.Measured{Target: r.w.agents.Target, Err: r.w.integrity.Damage()}
	}
	return cleanup.Measure(ctx, r.w.agents.Target, agentWork{r, a}, projectRemotes{r}, r.w.d.Log.With("workspace", r.w.agents.Name))
}

// agentWork implements cleanup.Work.
type agentWork struct {
	repo
	a *agent.Agent
}

func (w agentWork) Status(ctx context.Context) (uncommitted, unmerged int, err error) {
	if err := w.w.integrity.Damage(); err != nil {
		return 0, 0, err
	}
	k := w.a.Copy()
	st, err := w.w.git.Status(w.w.d.charge(ctx, k.Name), k.Name, k.Branch, worktree.View{})
	if err != nil {
		return 0, 0, err
	}
	own, err := w.work(ctx, w.a)
	if err != nil {
		return 0, 0, err
	}
	trees, err := worktree.PrivateWorktrees(w.a.WS.Root.Private(k.Name)) // what is in them is not known
	return st.Staged + st.Unstaged + st.Untracked + st.Conflicted + len(trees), max(st.Ahead, own.Unmerged), err
}

func (w agentWork) HasStash() (bool, error) {
	stash, err := worktree.PrivateStash(w.a.WS.Root.Private(w.a.Name()))
	return stash != "", err
}

func (w agentWork) Tips(ctx context.Context) ([]string, error) {
	k := w.a.Copy()
	tips, err := w.w.git.Tips(w.w.d.charge(ctx, k.Name), k.Name, k.Branch)
	if err != nil {
		return nil, err
	}
	own, err := w.work(ctx, w.a)
	for _, e := range own.Rest {
		tips = append(tips, e.Tip)
	}
	return tips, err
}

func (w agentWork) Parent(ctx context.Context) (name, tip string) {
	p := w.w.d.agents.Parent(w.a)
	if p == nil || p.WS != w.a.WS {
		return "", ""
	}
	k := p.Copy()
	tip, err := w.w.git.Bare().Ref(ctx, git.Branch(k.Branch))
	if err != nil {
		return "", ""
	}
	return k.Name, tip
}

func (w agentWork) IsAncestor(ctx context.Context, commit, tip string) (bool, error) {
	return w.w.git.Bare().IsAncestor(ctx, commit, tip)
}

// projectRemotes implements cleanup.Remotes.
type projectRemotes struct{ repo }

func (r projectRemotes) Names(ctx context.Context) ([]string, error) {
	p, err := r.w.git.Project(ctx)
	if err != nil || p == nil {
		return nil, err
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
