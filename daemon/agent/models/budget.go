package models

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polis/daemon/api/wire"
)

// sendTime bounds a request to a shim.
const sendTime = 5 * time.Second

// levels are parts of a budget, in percent, at which Reached is called.
var levels = [...]int{80, 100}

// BudgetAgent is an agent that has the role, or had it when it was removed.
type BudgetAgent struct {
	// Dir is the directory of its logs.
	Dir string
	// Up: it can send requests.
	Up bool
}

// BudgetKeeper has the grants. Set the fields; it is safe for concurrent use.
type BudgetKeeper struct {
	// File is where the grants are kept; it must be in a directory of root's.
	File string
	// Limits returns the bounds of a role's budget: tokens, or millionths of the currency.
	Limits func(role string) map[string]int64
	// Agents returns the agents of a role, also those that are stopped or removed.
	Agents func(role string) []BudgetAgent
	// Alive reports whether the shim of the agent with these logs may exist.
	Alive func(ctx context.Context, dir string) bool
	// Used returns what the agent with these logs has used on a day, by its ledger. open: with the requests that have begun.
	Used func(dir, day string, open bool) (wire.ShareUse, error)
	// Send sends an agent its shares, and returns what it has used.
	Send func(ctx context.Context, dir string, s wire.Shares) (wire.ShareUse, error)
	// Reached is called when a part of a bound is used up to a level of 80 or 100 percent, once each on a day.
	Reached func(dir, role, bound string, used, limit int64, level int)
	Log     *slog.Logger
	Now     func() time.Time

	waiting sync.Map                    // dirs for which Grant waits
	last    atomic.Pointer[[]BudgetUse] // what Uses returned
	mu      sync.Mutex
	loaded  bool
	kept    budgetFile
}

// account returns the account of a bound as it is now. What cannot be counted is an error. k.mu is held.
func (k *BudgetKeeper) account(ctx context.Context, role, name string, limit int64, agents []BudgetAgent) (account, error) {
	b := k.of(role, name)
	a := account{limit: b.limit(limit), members: map[string]member{}}
	for _, g := range agents {
		b.Grants[g.Dir] += 0 // what it used today counts, also when it is removed
	}
	for dir := range b.Grants {
		a.members[dir] = member{}
	}
	for dir := range a.members {
		use, err := k.Used(dir, k.kept.Day, false)
		if err != nil {
			return a, err
		}
		m := member{use.Of(name), b.Grants[dir]}
		if m.slack() > 0 && !k.Alive(ctx, dir) {
			if use, err = k.Used(dir, k.kept.Day, true); err != nil {
				return a, err
			}
			m = member{used: use.Of(name)}
			b.Grants[dir] = m.used // its next shim begins with nothing
		}
		a.members[dir] = m
	}
	return a, nil
}

// Grant grants an agent its next part of the budget of its role, or reports to it that nothing is left. Calls for an agent for which
// one waits do nothing.
func (k *BudgetKeeper) Grant(ctx context.Context, dir, role string) error {
	if _, dup := k.waiting.LoadOrStore(dir, true); dup {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting.Delete(dir)
	day := k.day()
	k.load(day)
	limits, agents := k.Limits(role), k.Agents(role)
	s := wire.Shares{Role: role, Day: day}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		x, err := k.next(ctx, dir, role, name, limits[name], agents)
		if err != nil {
			return err
		}
		s.Shares = append(s.Shares, x)
	}
	if len(s.Shares) == 0 {
		return nil
	}
	if err := k.save(); err != nil { // before the agent has it
		return err
	}
	_, err := k.send(ctx, dir, s)
	return err
}

func (k *BudgetKeeper) send(ctx context.Context, dir string, s wire.Shares) (wire.ShareUse, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return k.Send(ctx, dir, s)
}

// next returns the next part of a bound for an agent. k.mu is held.
func (k *BudgetKeeper) next(ctx context.Context, dir, role, name string, limit int64, agents []BudgetAgent) (wire.Share, error) {
	b := k.of(role, name)
	if b.Unknown {
		for _, g := range agents {
			if g.Dir != dir && g.Up {
				if err := k.lower(ctx, role, name, b, g.Dir, 0, limit); err != nil {
					return wire.Share{}, err
				}
			}
		}
		b.Unknown = false
	}
	a, err := k.account(ctx, role, name, limit, agents)
	if err != nil {
		return wire.Share{}, err
	}
	if _, ok := a.members[dir]; !ok { // it has another role by now
		return wire.Share{}, fmt.Errorf("agent %s does not have role %s", filepath.Base(dir), role)
	}
	k.report(dir, role, name, b, a)
	for _, all := range []bool{false, true} { // half of what others have is often enough
		if a.free(dir) >= a.least() {
			break
		}
		for other, to := range a.recall(dir, all) {
			if err := k.lower(ctx, role, name, b, other, to, a.limit); err != nil {
				k.Log.Warn("part of a shared model budget not returned", "agent", filepath.Base(other), "err", err)
			}
		}
		if a, err = k.account(ctx, role, name, limit, agents); err != nil {
			return wire.Share{}, err
		}
	}
	x := wire.Share{Bound: name, Upto: b.Grants[dir], Used: a.used(), Limit: a.limit}
	up := 0
	for _, g := range agents {
		if g.Up {
			up++
		}
	}
	switch {
	case a.free(dir) > 0:
		x.Upto = a.part(dir, up)
		b.Grants[dir] = x.Upto
	case x.Used >= x.Limit:
		x.Upto, x.Spent = min(x.Upto, a.members[dir].used), true
	default:
		return x, fmt.Errorf("role %s: what is left of %s is granted to agents that do not answer", role, name)
	}
	return x, nil
}

// lower lowers the grant of another agent. It counts when that agent has it: what it has used by then stays its own. k.mu is
// held.
func (k *BudgetKeeper) lower(ctx context.Context, role, name string, b *bound, dir string, to, limit int64) error {
	use, err := k.send(ctx, dir, wire.Shares{Role: role, Day: k.kept.Day, Shares: []wire.Share{{Bound: name, Upto: to, Limit: limit}}})
	if err != nil {
		return err
	}
	b.Grants[dir] = max(to, use.Of(name))
	return nil
}

// report reports a level that the use of a bound has reached. k.mu is held.
func (k *BudgetKeeper) report(dir, role, name string, b *bound, a account) {
	level := 0
	for _, l := range levels {
		if float64(a.used())*100 >= float64(a.limit)*float64(l) {
			level = l
		}
	}
	if level > b.Reported {
		k.Reached(dir, role, name, a.used(), a.limit, level)
	}
	b.Reported = level
}

// Raise raises a bound of a role on a day, as a person decided. It is repeated without effect.
func (k *BudgetKeeper) Raise(ctx context.Context, role, name, day string, to int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.load(k.day())
	limit := k.Limits(role)[name]
	if day != k.kept.Day || limit <= 0 {
		return nil // it was for the day before, or there is no such bound any more
	}
	b := k.of(role, name)
	if to <= b.Raised {
		return nil
	}
	b.Raised = to
	if err := k.save(); err != nil {
		return err
	}
	// Those that wait for an answer of their own, or refuse requests, continue.
	for _, g := range k.Agents(role) {
		if g.Up {
			if _, err := k.send(ctx, g.Dir, wire.Shares{Role: role, Day: day, Shares: []wire.Share{{Bound: name, Upto: b.Grants[g.Dir], Limit: b.limit(limit)}}}); err != nil {
				k.Log.Warn("raised model budget not sent", "agent", filepath.Base(g.Dir), "err", err)
			}
		}
	}
	return nil
}
