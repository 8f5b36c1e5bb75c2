package daemon

import (
	"context"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/filtered"
	"polis/daemon/worktree"
	"polis/fusefs/policy"
)

const (
	// maxMissing is the most objects that an agent's git may request at once.
	maxMissing = 1000
	// bringTime is the longest that such a request waits until the filtered objects contain what
	// the refs lead to.
	bringTime = 2 * time.Minute
)

// reading compiles the rules that decide which files an agent reads, as its view has them.
func (d *Daemon) reading(p api.Policy) (policy.Rules, *policy.Set, error) {
	c := d.live()
	rules := policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide, Temp: c.Locks.TempNames}
	set, err := policy.Compile(rules)
	if err != nil {
		return rules, nil, api.Errorf(api.CodeBadRequest, "policy: %w", err)
	}
	return rules, set, nil
}

// withhold excludes what the agent's rules deny or hide from the objects that its git gets. It
// also makes git skip withheld files that it tracks.
func (t worktrees) withhold(ctx context.Context, w *workspace, a *agent.Agent) error {
	a.Filtered = ""
	rules, set, err := t.d.reading(a.Copy().Policy)
	if err != nil {
		return err
	}
	if set.AllReadable() {
		return w.git.Sparse(a.Name(), "")
	}
	fail := func(err error) error {
		return api.Errorf(api.CodeWorktreeFailed, "choose what agent %s may read of the repository's history: %w", a.Name(), err).
			WithHint("its rules withhold files, so it gets the other objects only; polisd's log has details")
	}
	key, err := w.filter.Ensure(ctx, rules)
	if err != nil {
		return fail(err)
	}
	if err := w.git.Sparse(a.Name(), a.WS.Root.Published()); err != nil {
		return fail(err)
	}
	if _, err = w.git.Withhold(ctx, a.Name(), worktree.View{}, func(path string) bool { return set.Decide(path, false).Read != policy.Allow }); err != nil {
		return err
	}
	a.Filtered = w.filter.Objects(key)
	return t.sweepFiltered(ctx, w, "")
}

// sweepFiltered removes the filtered objects that no agent uses. It ignores the agent called but,
// which is being removed.
func (t worktrees) sweepFiltered(ctx context.Context, w *workspace, but string) error {
	var used []string
	for name, p := range t.d.agents.Policies(w.agents.Name) {
		if name == but {
			continue
		}
		if rules, set, err := t.d.reading(p); err != nil {
			return nil //nolint:nilerr // unknown rules: unknown what is used
		} else if !set.AllReadable() {
			key, err := filtered.Key(rules)
			if err != nil {
				return err
			}
			used = append(used, key)
		}
		if key := t.d.filteredOf(w, name); key != "" {
			used = append(used, key)
		}
	}
	return w.filter.Sweep(ctx, used)
}

// filteredOf returns the key of the filtered objects that an agent was started with.
func (d *Daemon) filteredOf(w *workspace, name string) string {
	sp, ok := d.shims.Spec(name)
	if !ok || sp.Filtered == "" || sp.Workspace != w.agents.Name {
		return ""
	}
	return w.filter.KeyOf(sp.Filtered)
}

// judgeSaved refuses to restore for an agent what has a withheld file at another path:
// what was never published was never judged.
func (r repo) judgeSaved(ctx context.Context, a *agent.Agent, ref string) error {
	rules, set, err := r.w.d.reading(a.Copy().Policy)
	if err != nil || set.AllReadable() {
		return err
	}
	internal := r.w.git.Internal()
	saved, err := internal.Ref(ctx, ref)
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "restore %s: %w", ref, err)
	}
	key, err := r.w.filter.Ensure(ctx, rules)
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "restore %s: %w", ref, err)
	}
	if err := r.w.filter.AllowSaved(ctx, key, internal.ObjectDir(), saved); err != nil {
		return api.Errorf(api.CodeUndeclaredRead, "restore %s: %w", ref, err).
			WithHint("the saved work has a file at a path that agent %s may read, and its rules withhold that file elsewhere; take from it what you want: git --git-dir %s show %s", a.Name(), internal.Dir, ref)
	}
	return nil
}

// bringFiltered brings the objects of an agent up to what the refs lead to.
func (d *Daemon) bringFiltered(ctx context.Context, w *workspace, name string) error {
	key := d.filteredOf(w, name)
	if key == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bringTime)
	defer cancel()
	return w.filter.Bring(ctx, key)
}

// objects answers an agent's git that misses some.
func (b *backend) objects(ctx context.Context, w *workspace, name string, ids []string) (api.RemoteResponse, error) {
	res := api.RemoteResponse{Refused: map[string]string{}}
	key := b.filteredOf(w, name)
	if key == "" {
		return res, nil
	}
	if err := b.bringFiltered(ctx, w, name); err != nil {
		b.Daemon.Log.Warn("filtered objects are not up to date", "agent", name, "op", "filter", "err", err)
		return res, api.Errorf(api.CodeUnavailable, "the objects that agent %s may read cannot be brought up to the refs: %w", name, err)
	}
	missing, err := w.filter.Missing(ctx, key, ids[:min(len(ids), maxMissing)])
	if err != nil {
		return res, err
	}
	res.Refused = missing
	return res, nil
}
