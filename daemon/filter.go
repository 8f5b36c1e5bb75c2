package daemon

import (
	"context"
	"maps"
	"slices"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/git/filtered"
	"polis/daemon/git/worktree"
	"polis/daemon/rules/cone"
	"polis/fusefs/policy"
)

// reading compiles the rules that decide which files an agent reads, as its view has them.
func (d *Daemon) reading(p api.Policy) (policy.Rules, *policy.Set, error) {
	return filtered.Reading(p, d.live().Locks.TempNames)
}

// withhold excludes what the agent's rules deny or hide from the objects that its git gets. It
// also makes git skip withheld files that it tracks.
func (t worktrees) withhold(ctx context.Context, w *workspace, a *agent.Agent) error {
	a.Filtered = ""
	now, err := t.coneBeside(ctx, w, a)
	if err != nil {
		return err
	}
	key, err := w.filter.Withhold(ctx, a.Name(), a.Copy().Rules(), t.d.live().Locks.TempNames, a.WS.Root.Published(), now, agentIndex{w, a.Name()})
	if err != nil || key == "" {
		return err
	}
	a.Filtered = w.filter.Objects(key)
	return t.sweepFiltered(ctx, w, "")
}

// coneBeside returns the cone that an agent's git has now, for patterns that have the withheld files, too; nil: all files. It
// records the cone, because these patterns replace those of the agent, who may have widened its checkout.
func (t worktrees) coneBeside(ctx context.Context, w *workspace, a *agent.Agent) (*cone.Cone, error) {
	made := a.Copy().Sparse
	if _, set, err := t.d.reading(a.Copy().Rules()); made == nil || err != nil || set.AllReadable() {
		return coneOf(made), nil //nolint:nilerr // who withholds the files reports it
	}
	now := w.git.Cone(ctx, a.Name())
	if now == nil {
		return nil, nil //nolint:nilnil // the agent has ended its sparse checkout
	}
	return now, t.d.agents.NoteSparse(a.Name(), sparseOf(now))
}

// agentIndex implements filtered.Index.
type agentIndex struct {
	w    *workspace
	name string
}

func (i agentIndex) Patterned() bool { return i.w.git.Patterned(i.name) }

// Sparse also gives an agent whose rules withhold nothing the patterns of its own sparse checkout, if it has one. Only the
// agent can be in the way of that, and has it so then.
func (i agentIndex) Sparse(patterns string) error {
	if err := i.w.git.Sparse(i.name, patterns); err != nil || patterns != "" {
		return err
	}
	if err := i.w.git.WriteCone(i.name); err != nil {
		i.w.d.Log.Warn("patterns of a sparse checkout not written", "agent", i.name, "err", err)
	}
	return nil
}

func (i agentIndex) Withhold(ctx context.Context, key string, withheld func(path string) bool) error {
	return i.w.git.Withhold(ctx, i.name, worktree.View{}, key, withheld)
}

func (i agentIndex) Settle(ctx context.Context, asked func(path string) bool) error {
	return i.w.git.Settle(ctx, i.name, worktree.View{}, asked)
}

// sweepFiltered removes the filtered objects that no agent uses. It ignores the agent called but,
// which is being removed.
func (t worktrees) sweepFiltered(ctx context.Context, w *workspace, but string) error {
	var policies []api.Policy
	var started []string
	var cones []*cone.Cone
	for name, p := range t.d.agents.Policies(w.agents.Name) {
		if name == but {
			continue
		}
		policies, cones = append(policies, p), append(cones, t.d.coneOf(name))
		if key := t.d.filteredOf(w, name); key != "" {
			started = append(started, key)
		}
	}
	return w.filter.SweepUnused(ctx, policies, t.d.live().Locks.TempNames, started, cones)
}

// filteredOf returns the key of the filtered objects that an agent was started with.
func (d *Daemon) filteredOf(w *workspace, name string) string {
	sp, ok := d.shims.Spec(name)
	if !ok || sp.Filtered == "" || sp.Workspace != w.agents.Name {
		return ""
	}
	return w.filter.KeyOf(sp.Filtered)
}

// judgeSaved refuses to restore for an agent what has a withheld file at another path.
func (r repo) judgeSaved(ctx context.Context, a *agent.Agent, ref string) error {
	rules, set, err := r.w.d.reading(a.Copy().Rules())
	if err != nil || set.AllReadable() {
		return err
	}
	return r.w.filter.CheckSaved(ctx, a.Name(), rules, r.w.git.Internal(), ref)
}

// updateFiltered adds what the refs lead to to the objects of an agent.
func (d *Daemon) updateFiltered(ctx context.Context, w *workspace, name string) error {
	key := d.filteredOf(w, name)
	if key == "" {
		return nil
	}
	return w.filter.Update(ctx, key)
}

// objects answers an agent's git that misses some. Those that a person has approved it gets, if a rule of
// the agent's asks about them.
func (b *backend) objects(ctx context.Context, w *workspace, name string, ids []string, approved bool) (api.RemoteResponse, error) {
	res := api.RemoteResponse{Refused: map[string]string{}}
	key := b.filteredOf(w, name)
	if key == "" {
		return res, nil
	}
	missing, err := w.filter.Answer(ctx, name, key, ids)
	if err != nil {
		return res, err
	}
	ask, err := w.filter.Askable(key, missing)
	if err != nil {
		return res, err
	}
	res.Refused = missing
	if !approved {
		res.Ask = ask
		return res, nil
	}
	if err := w.git.Give(ctx, name, slices.Collect(maps.Keys(ask))); err != nil {
		return res, err
	}
	for id := range ask {
		delete(res.Refused, id)
	}
	return res, nil
}
