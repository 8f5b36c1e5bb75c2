package shim

import (
	"fmt"
	"time"

	"polis/daemon/api/wire"
	"polis/fusefs/policy/glob"
	"polis/lockd"
)

// lockRules are the configuration's rules for leases, for this agent.
type lockRules struct {
	hold  lockd.Hold
	wait  time.Duration
	rules []lockRule
}

type lockRule struct {
	glob *glob.Pattern
	hold *lockd.Hold // nil: the default
	wait *time.Duration
}

func compileLockRules(sp wire.Spec) (*lockRules, error) {
	hold, err := lockd.ParseHold(string(sp.Hold))
	if err != nil {
		return nil, err
	}
	r := &lockRules{hold: hold, wait: time.Duration(sp.Wait)}
	for i, u := range sp.LockRules {
		var c lockRule
		if c.glob, err = glob.Compile(u.Glob); err != nil {
			return nil, fmt.Errorf("lock rule %d, glob %q: %w", i, u.Glob, err)
		}
		if u.Hold != "" {
			h, err := lockd.ParseHold(string(u.Hold))
			if err != nil {
				return nil, fmt.Errorf("lock rule %d: %w", i, err)
			}
			c.hold = &h
		}
		if u.OnConflict != "" {
			w, err := u.OnConflict.Duration()
			if err != nil {
				return nil, fmt.Errorf("lock rule %d: %w", i, err)
			}
			c.wait = &w
		}
		r.rules = append(r.rules, c)
	}
	return r, nil
}

// holdFor is how long a lease on a file outlives its last use, by the last rule that names the
// path or a directory above it.
func (r *lockRules) holdFor(key string) lockd.Hold {
	path := lockd.FilePath(key)
	for i := len(r.rules) - 1; i >= 0; i-- {
		if u := &r.rules[i]; u.hold != nil && u.glob.Covers(path, false) {
			return *u.hold
		}
	}
	return r.hold
}

// waitFor is how long to wait for another agent's lease.
func (r *lockRules) waitFor(key string) time.Duration {
	path := lockd.FilePath(key)
	for i := len(r.rules) - 1; i >= 0; i-- {
		if u := &r.rules[i]; u.wait != nil && u.glob.Covers(path, false) {
			return *u.wait
		}
	}
	return r.wait
}
