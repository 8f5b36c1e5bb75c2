package filtered

import (
	"context"

	"polis/daemon/api"
	"polis/fusefs/policy"
)

// Index changes how an agent's git sees the files of its worktree.
type Index interface {
	// Sparse makes git read the objects at published; "" undoes that. It reports whether something changed.
	Sparse(published string) (changed bool, err error)
	// Withhold makes git skip the tracked files for which withheld returns true, and look at the others
	// again. withheld returns the same for equal keys. The key "" withholds nothing.
	Withhold(ctx context.Context, key string, withheld func(path string) bool) error
	// Settle makes git compare the tracked files for which asked returns true by their times only, as far as
	// they are unchanged: reading one opens a question.
	Settle(ctx context.Context, asked func(path string) bool) error
}

// Withhold prepares the objects and the index of an agent, which is stopped, for what its rules let
// it read. It returns the key of its store; "" if it may read all, and gets the shared objects. The
// store comes first: an agent whose git skips files never gets more objects than its rules leave.
func (k *Keeper) Withhold(ctx context.Context, agent string, p api.Policy, temp []string, published string, index Index) (key string, err error) {
	rules, set, err := Reading(p, temp)
	if err != nil {
		return "", err
	}
	if set.AllReadable() {
		// Files that earlier rules withheld are the agent's to change now.
		if changed, err := index.Sparse(""); err != nil || !changed {
			return "", err
		}
		return "", index.Withhold(ctx, "", func(string) bool { return false })
	}
	if key, err = k.Ensure(ctx, rules); err == nil {
		_, err = index.Sparse(published)
	}
	if err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "choose what agent %s may read of the repository's history: %w", agent, err).
			WithHint("its rules withhold files, so it gets the other objects only; polisd's log has details")
	}
	err = index.Withhold(ctx, key, func(path string) bool { return !set.Decide(path, false).Shown() })
	if err == nil && len(rules.Ask) > 0 {
		err = index.Settle(ctx, func(path string) bool { return set.Decide(path, false).Read == policy.Ask })
	}
	return key, err
}

// SweepUnused removes the stores that no agent uses. policies are the rules of all agents, started
// the keys of the stores that agents were started with.
func (k *Keeper) SweepUnused(ctx context.Context, policies []api.Policy, temp, started []string) error {
	used, known, err := InUse(policies, temp)
	if err != nil || !known {
		return err
	}
	return k.Sweep(ctx, append(used, started...))
}
