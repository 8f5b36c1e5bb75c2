package models

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// BudgetUse is how far a bound of a role is used today.
type BudgetUse struct {
	Role, Bound string
	// Used and Limit are tokens, or millionths of the currency; Granted is what agents may use further without asking.
	Used, Limit, Granted int64
}

// Uses returns how far the bounds of roles are used today. During a grant, which can wait for a shim, it returns what it did the
// last time.
func (k *BudgetKeeper) Uses(ctx context.Context, roles []string) ([]BudgetUse, error) {
	if !k.mu.TryLock() {
		if last := k.last.Load(); last != nil {
			return *last, nil
		}
		k.mu.Lock()
	}
	defer k.mu.Unlock()
	k.load(k.day())
	var out []BudgetUse
	var errs []error
	for _, role := range roles {
		limits, agents := k.Limits(role), k.Agents(role)
		for _, name := range slices.Sorted(maps.Keys(limits)) {
			a, err := k.account(ctx, role, name, limits[name], agents)
			if err != nil {
				errs = append(errs, fmt.Errorf("role %s: %w", role, err))
				continue
			}
			u := BudgetUse{Role: role, Bound: name, Used: a.used(), Limit: a.limit}
			for _, m := range a.members {
				u.Granted += m.slack()
			}
			out = append(out, u)
		}
	}
	k.last.Store(&out)
	return out, errors.Join(errs...)
}
