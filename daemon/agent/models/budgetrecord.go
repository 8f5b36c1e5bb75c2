package models

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"polis/daemon/store"
)

// budgetFile is what is saved of one day.
type budgetFile struct {
	Day   string                       `json:"day"`
	Roles map[string]map[string]*bound `json:"roles"`
}

// bound is what was granted of a bound of a role.
type bound struct {
	// Grants are by the directory of the agent's logs.
	Grants map[string]int64 `json:"grants"`
	// Raised is what a person raised the bound to; 0: nobody did.
	Raised int64 `json:"raised,omitempty"`
	// Reported is the level that was reported.
	Reported int `json:"reported,omitempty"`
	// Unknown: the file was lost. Agents that are up may have more than Grants has.
	Unknown bool `json:"unknown,omitempty"`
}

// load reads the file once, and begins the account of a day. k.mu is held.
func (k *BudgetKeeper) load(day string) {
	lost := false
	if !k.loaded {
		err := errors.Join(store.Sweep(k.File), store.ReadSummed(k.File, &k.kept))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.Log.Error("shared model budgets not read: agents return first what they were granted", "path", k.File, "err", err)
			lost = true
		}
		k.loaded = true
	}
	if k.kept.Day != day || k.kept.Roles == nil || lost {
		k.kept = budgetFile{Day: day, Roles: map[string]map[string]*bound{}}
		if lost {
			k.kept.Roles[""] = map[string]*bound{"": {Unknown: true}} // it marks those that are made today
		}
	}
}

// of returns the account of a bound. k.mu is held.
func (k *BudgetKeeper) of(role, name string) *bound {
	bounds := k.kept.Roles[role]
	if bounds == nil {
		bounds = map[string]*bound{}
		k.kept.Roles[role] = bounds
	}
	b := bounds[name]
	if b == nil {
		mark := k.kept.Roles[""][""]
		b = &bound{Grants: map[string]int64{}, Unknown: mark != nil && mark.Unknown}
		bounds[name] = b
	}
	return b
}

func (k *BudgetKeeper) save() error {
	if err := store.WriteSummed(k.File, k.kept); err != nil {
		return fmt.Errorf("keep the shared model budgets: %w", err)
	}
	return nil
}

func (k *BudgetKeeper) day() string { return k.Now().UTC().Format(time.DateOnly) }

// limit is a bound with what a person raised it to.
func (b *bound) limit(configured int64) int64 { return max(configured, b.Raised) }
