package netbridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Repaired is what Repair found and did.
type Repaired struct {
	Faults []Fault
	// Gates are agents whose gates have lost rules: they are closed until their shims fill them again.
	Gates []string
	// Doubtful is set if a gate was not whole for the first time. It counts if the next Repair, some
	// time later, finds the same: its shim may have been about to fill it.
	Doubtful bool
}

// Nothing reports that all was as it should be.
func (r Repaired) Nothing() bool { return len(r.Faults) == 0 && len(r.Gates) == 0 }

// Repair restores what another program or an administrator has changed: the table and all its chains, the bridge
// and its address, forwarding, the agents' links. It changes nothing if all is as it was made. A gate's rules
// are its shim's: their loss is reported, also one that an [Bridge.Ensure] has met since the last call.
//
// An error means that something is still wrong; Faults has what was found.
func (b *Bridge) Repair(ctx context.Context) (Repaired, error) {
	var r Repaired
	err := b.locked(ctx, func(c *change) (bool, error) { return false, c.repair(ctx, &r) })
	return r, err
}

func (c *change) repair(ctx context.Context, r *Repaired) error {
	st, err := c.compare()
	if err != nil {
		return err
	}
	r.Faults = st.faults
	c.judgeGates(st, r)
	for _, agent := range st.noLink {
		c.lost[agent] = true
	}
	if len(st.faults) > 0 {
		err = c.restore(ctx, st)
	}
	if s, serr := c.scan(); serr == nil {
		err = errors.Join(err, c.followPath(ctx, s))
	}
	r.Gates = sortedKeys(c.lost)
	clear(c.lost)
	return err
}

// compare reads the kernel's state.
func (c *change) compare() (*state, error) {
	s, err := c.scan()
	if err != nil {
		return nil, err
	}
	t, err := readTable(c.names.table)
	if err != nil {
		return nil, err
	}
	return c.state(s, t)
}

// judgeGates counts a gate as lost that has no rules and had some, and one that was not whole before, either.
func (c *change) judgeGates(st *state, r *Repaired) {
	doubtful := map[string]bool{}
	found := func(agent string) {
		c.lost[agent] = true
		if len(st.faults) == 0 {
			r.Faults = append(r.Faults, Fault{Agent: agent, What: "rules of its gate were removed or changed"})
		}
	}
	for agent, filled := range st.filled {
		if !filled && c.opened[agent] {
			found(agent)
		}
	}
	for _, agent := range st.gates {
		switch {
		case c.lost[agent]:
		case c.doubtful[agent]:
			found(agent)
		default:
			doubtful[agent], r.Doubtful = true, true
		}
	}
	c.doubtful = doubtful
	if !st.shared {
		c.opened = st.filled // else they are read again when the table is back
	}
}

// restore repairs what all agents share, then the links, and compares again.
func (c *change) restore(ctx context.Context, st *state) error {
	if st.shared {
		if err := c.ensureShared(); err != nil {
			return err
		}
		again, err := c.compare() // without a bridge nothing was known of links
		if err != nil {
			return err
		}
		st = again
	}
	var errs []error
	for _, agent := range slices.Sorted(maps.Keys(st.links)) {
		if _, err := c.ensureAgent(ctx, agent); err != nil {
			errs = append(errs, fmt.Errorf("network of agent %s: %w", agent, err))
		}
	}
	again, err := c.compare()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if len(errs) == 0 && len(again.faults) > 0 {
		errs = append(errs, fmt.Errorf("still %s", Faults(again.faults)))
	}
	return errors.Join(errs...)
}

// Faults is a list for people.
func Faults(list []Fault) string {
	var words []string
	for _, f := range list {
		words = append(words, f.String())
	}
	return strings.Join(words, "; ")
}
