package agent

import (
	"fmt"
	"maps"
	"slices"

	"polis/daemon/api"
	"polis/fusefs/policy/glob"
)

// contested refuses rules that overlap with another agent's exclusive paths in the workspace, or
// that claim paths which another agent has a rule to write (seed 002, ConflictPolicy fail_fast).
// An agent without write rules is not considered: its changes are checked at the merge. m.mu is
// held.
func (m *Manager) contested(a *Agent, p api.Policy) error {
	for _, name := range slices.Sorted(maps.Keys(m.agents)) {
		o := m.agents[name]
		if o == a || o.WS.Name != a.WS.Name {
			continue
		}
		sides := [2]*Agent{o, a}
		rules := map[*Agent]api.Policy{o: o.Kept.Policy, a: p}
		for i, owner := range sides {
			other := sides[1-i]
			mine, rule, kind, err := overlap(rules[owner], rules[other])
			if err != nil {
				return api.Errorf(api.CodeBadRequest, "exclusive: %w", err)
			}
			if mine == "" {
				continue
			}
			return api.Errorf(api.CodeExclusivePath, "exclusive %q of agent %s overlaps with %s %q of agent %s", mine, owner.Name(), kind, rule, other.Name()).
				With("agent", name).With("exclusive", mine).With("rule", rule).
				WithHint("polisctl agents policy %s shows its rules; choose other paths, or take the overlap away with --write '!%s' after the other rules", name, mine)
		}
	}
	return nil
}

// overlap returns an exclusive path of one agent, and a rule of another that writes or claims a
// part of it.
func overlap(owner, other api.Policy) (exclusive, rule, kind string, err error) {
	if len(owner.Exclusive) == 0 {
		return "", "", "", nil
	}
	withheld, err := compile(slices.Concat(other.Deny, other.Hide))
	if err != nil {
		return "", "", "", err
	}
	mine, err := compile(owner.Exclusive)
	if err != nil {
		return "", "", "", err
	}
	for _, l := range []struct {
		kind  string
		globs []string
	}{{"exclusive", other.Exclusive}, {"write", other.Write}} {
		rules, err := compile(l.globs)
		if err != nil {
			return "", "", "", err
		}
		for at, e := range mine {
			if e.Negated() {
				continue
			}
			if l.kind == "write" && slices.ContainsFunc(withheld, func(w *glob.Pattern) bool { return !w.Negated() && glob.Contains(w, e) }) {
				continue
			}
			for i, r := range rules {
				taken := slices.ContainsFunc(rules[i+1:], func(n *glob.Pattern) bool { return n.Negated() && glob.Contains(n, e) })
				given := slices.ContainsFunc(mine[at+1:], func(n *glob.Pattern) bool { return n.Negated() && glob.Contains(n, r) })
				if !r.Negated() && !taken && !given && glob.Overlap(e, r) {
					return e.String(), r.String(), l.kind, nil
				}
			}
		}
	}
	return "", "", "", nil
}

func compile(globs []string) ([]*glob.Pattern, error) {
	out := make([]*glob.Pattern, 0, len(globs))
	for _, g := range globs {
		p, err := glob.Compile(g)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", g, err)
		}
		out = append(out, p)
	}
	return out, nil
}
