package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/fusefs/policy/glob"
)

// LockRules describe how long leases last and what a second agent gets. They are
// in [locks], where both keys have defaults, and in [roles.NAME.locks], where
// what is not said is as in [locks].
type LockRules struct {
	Hold       setting.Hold       `toml:"hold"`
	OnConflict setting.OnConflict `toml:"on_conflict"`
	// Trees is what happens if an agent wants to lock a whole directory by name.
	Trees setting.Verdict `toml:"trees"`
	// Rules say it for some paths; of those that match the last one counts.
	Rules []setting.LockRule `toml:"rule"`
}

// Bounds of what may be configured.
const (
	maxLockHold  = 24 * time.Hour
	maxLockWait  = 10 * time.Minute
	maxLockRules = 256
)

// LockRules returns what counts for an agent of role: the role's keys over
// those of [locks], and the role's rules after those of [locks]. A role that
// is no more changes nothing.
func (c *Config) LockRules(role string) LockRules {
	r, of := c.Locks.LockRules, c.Roles[role].Locks
	if of.Hold != "" {
		r.Hold = of.Hold
	}
	if of.OnConflict != "" {
		r.OnConflict = of.OnConflict
	}
	if of.Trees != "" {
		r.Trees = of.Trees
	}
	r.Rules = slices.Concat(r.Rules, of.Rules)
	return r
}

func (c *Config) checkLocks() error {
	if err := c.Locks.check("locks", true); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		r := c.Roles[name].Locks
		if err := r.check("roles."+name+".locks", false); err != nil {
			return err
		}
	}
	return nil
}

func (r *LockRules) check(table string, required bool) error {
	bad := func(field string, value any, err error) error {
		return api.Errorf(api.CodeInvalidConfig, "%s.%s = %q: %w", table, field, fmt.Sprint(value), err)
	}
	if r.Hold != "" || required {
		if err := checkHold(r.Hold); err != nil {
			return bad("hold", r.Hold, err)
		}
	}
	if r.OnConflict != "" || required {
		if err := checkOnConflict(r.OnConflict); err != nil {
			return bad("on_conflict", r.OnConflict, err)
		}
	}
	if r.Trees != "" || required {
		if err := r.Trees.Check(); err != nil {
			return bad("trees", r.Trees, err)
		}
	}
	if len(r.Rules) > maxLockRules {
		return bad("rule", fmt.Sprint(len(r.Rules), " rules"), fmt.Errorf("at most %d are allowed", maxLockRules))
	}
	for i, u := range r.Rules {
		field := fmt.Sprintf("rule[%d]", i)
		p, err := glob.Compile(u.Glob)
		switch {
		case err != nil:
			return bad(field+".glob", u.Glob, err)
		case p.Negated():
			return negatedRule(table+"."+field+".glob", u.Glob)
		case u.Hold == "" && u.OnConflict == "":
			return bad(field, u.Glob, errors.New("says neither hold nor on_conflict"))
		}
		if u.Hold != "" {
			if err := checkHold(u.Hold); err != nil {
				return bad(field+".hold", u.Hold, err)
			}
		}
		if u.OnConflict != "" {
			if err := checkOnConflict(u.OnConflict); err != nil {
				return bad(field+".on_conflict", u.OnConflict, err)
			}
		}
	}
	return nil
}

func checkHold(h setting.Hold) error {
	if d, err := h.Duration(); err != nil || d > maxLockHold {
		return errors.New(`must be "close", "merge" or a duration up to 24h`)
	}
	return nil
}

func checkOnConflict(o setting.OnConflict) error {
	if d, err := o.Duration(); err != nil || d > maxLockWait {
		return errors.New(`must be "fail" or the time to wait, a duration up to 10m`)
	}
	return nil
}
