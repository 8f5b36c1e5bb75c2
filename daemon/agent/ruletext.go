package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
	"polis/fusefs/policy"
	"polis/fusefs/policy/glob"
)

// lists returns the lists of rules by their field.
func lists(p api.Policy) map[string][]string {
	return map[string][]string{"read": p.Read, "write": p.Write, "ask": p.Ask, "deny": p.Deny, "hide": p.Hide, "exclusive": p.Exclusive}
}

// checkNegated refuses rules among added ones that negate nothing: no rule before them names what
// they name, so that they would withhold, or permit, nothing.
func checkNegated(p, added api.Policy) error {
	all, want := lists(p), lists(added)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		patterns, err := compile(all[field])
		if err != nil {
			return api.Errorf(api.CodeBadRequest, "policy.%s: %w", field, err)
		}
		for i, g := range all[field] {
			if !slices.Contains(want[field], g) {
				continue
			}
			if at, idle := glob.Idle(patterns[:i+1]); idle && at == i {
				return config.IdleRule(api.CodeBadRequest, "policy."+field, g)
			}
		}
	}
	return nil
}

// errFound ends a listing early.
var errFound = errors.New("found")

// checkBrackets refuses rules among added ones that mean other files than they name: a rule with
// "[...]" that covers no file of the target branch, while files are there that have these brackets in
// their names. role is the role that has rules of the policy. Files that sees denies are not
// considered: a worker of an agent learns nothing of what is hidden from it. sees may be nil.
func (m *Manager) checkBrackets(ctx context.Context, w *Workspace, p api.Policy, role string, sees func(path string) bool) error {
	if !w.Git {
		return nil
	}
	type rule struct {
		field, text   string
		means, spells *glob.Pattern
		path          string // covered by the spelling
		used          bool
	}
	var rules []*rule
	for field, globs := range lists(p) {
		for _, g := range globs {
			means, err := glob.Compile(g)
			if err != nil {
				return api.Errorf(api.CodeBadRequest, "policy.%s: %q: %w", field, api.Shorten(g, 64), err)
			}
			if spells := means.Brackets(); spells != nil {
				rules = append(rules, &rule{field: field, text: g, means: means, spells: spells})
			}
		}
	}
	if len(rules) == 0 {
		return nil
	}
	open := len(rules)
	err := w.Repo.TargetFiles(ctx, func(path string) error {
		if sees != nil && !sees(path) {
			return nil
		}
		for _, r := range rules {
			switch {
			case r.used:
			case r.means.Covers(path, false):
				r.used = true
				if open--; open == 0 {
					return errFound
				}
			case r.path == "" && r.spells.Covers(path, false):
				r.path = path
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return fmt.Errorf("compare rules with the files of the project: %w", err)
	}
	slices.SortFunc(rules, func(a, b *rule) int { return strings.Compare(a.field+"\x00"+a.text, b.field+"\x00"+b.text) })
	fromRole := lists(m.config().Roles[role].Policy)
	for _, r := range rules {
		if r.used || r.path == "" {
			continue
		}
		field := "policy." + r.field
		if slices.Contains(fromRole[r.field], r.text) {
			field = "roles." + role + "." + r.field
		}
		return api.Errorf(api.CodeBadRequest, "%s: %q names no file of the project, and not %q: [...] stands for one character", field, api.Shorten(r.text, 200), api.Shorten(r.path, 200)).
			With("field", field).With("rule", r.text).With("escaped", r.spells.String()).
			WithHint("for files of that name write '%s'", r.spells.String())
	}
	return nil
}

// sight returns what the agent that makes a worker sees of the project; nil: all of it.
func (m *Manager) sight(of *store.Worker) func(path string) bool {
	none := func(string) bool { return false }
	if of == nil || of.Parent == "" {
		return nil
	}
	a, err := m.lookup(of.Parent)
	if err != nil {
		return none
	}
	p := a.Copy().Rules()
	set, err := policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide})
	if err != nil {
		return none
	}
	return func(path string) bool { return set.DecideThrough(path, false).Read != policy.Hide }
}

// newRules returns the rules of now that old does not have.
func newRules(old, now api.Policy) api.Policy {
	only := func(now, old []string) []string {
		return slices.DeleteFunc(slices.Clone(now), func(g string) bool { return slices.Contains(old, g) })
	}
	return api.Policy{Read: only(now.Read, old.Read), Write: only(now.Write, old.Write), Ask: only(now.Ask, old.Ask),
		Deny: only(now.Deny, old.Deny), Hide: only(now.Hide, old.Hide), Exclusive: only(now.Exclusive, old.Exclusive)}
}
