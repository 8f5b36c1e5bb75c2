package filtered

import (
	"context"
	"errors"
	"path/filepath"

	"polis/daemon/api"
	"polis/daemon/rules/cone"
	"polis/fusefs/policy"
)

// Index changes how an agent's git sees the files of its worktree.
type Index interface {
	// Patterned reports whether Sparse made git read such a file before.
	Patterned() bool
	// Sparse makes git read its patterns from a file that the agent finds at a path; "" undoes that.
	Sparse(patterns string) error
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
//
// published is where it finds its objects then. c is its sparse checkout, nil if it has all files.
func (k *Keeper) Withhold(ctx context.Context, agent string, p api.Policy, temp []string, published string, c *cone.Cone, index Index) (key string, err error) {
	rules, set, err := Reading(p, temp)
	if err != nil {
		return "", err
	}
	if set.AllReadable() {
		// Files that earlier rules withheld are the agent's to change now. The patterns go last: after a crash the
		// next start finds them.
		if index.Patterned() {
			if err := index.Withhold(ctx, "", func(string) bool { return false }); err != nil {
				return "", err
			}
		}
		return "", index.Sparse("")
	}
	if key, err = k.Ensure(ctx, rules); err == nil {
		err = k.ensureCone(ctx, key, c)
	}
	if err == nil {
		err = index.Sparse(filepath.Join(published, SparseName(c)))
	}
	if err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "choose what agent %s may read of the repository's history: %w", agent, err).
			WithHint("its rules withhold files, so it gets the other objects only; polisd's log has details")
	}
	if err = index.Withhold(ctx, key, func(path string) bool { return !set.Decide(path, false).Shown() }); err == nil {
		err = settle(ctx, rules, set, index)
	}
	return key, err
}

// Settle does again what Withhold has done for files that an agent's rules ask about: the agent has worked since, and waits for a
// task.
func Settle(ctx context.Context, p api.Policy, temp []string, index Index) error {
	rules, set, err := Reading(p, temp)
	if err != nil || set.AllReadable() {
		return err
	}
	return settle(ctx, rules, set, index)
}

func settle(ctx context.Context, rules policy.Rules, set *policy.Set, index Index) error {
	if len(rules.Ask) == 0 {
		return nil
	}
	return index.Settle(ctx, func(path string) bool { return set.Decide(path, false).Read == policy.Ask })
}

// SweepUnused removes the stores that no agent uses, and the patterns of sparse checkouts that none has. policies are
// the rules of all agents, cones their sparse checkouts, and started the keys of the stores that agents were started with.
func (k *Keeper) SweepUnused(ctx context.Context, policies []api.Policy, temp, started []string, cones []*cone.Cone) error {
	used, known, err := InUse(policies, temp)
	if err != nil || !known {
		return err
	}
	return errors.Join(k.Sweep(ctx, append(used, started...)), k.sweepCones(ctx, cones))
}
