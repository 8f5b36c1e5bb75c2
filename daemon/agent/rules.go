package agent

import (
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
	"polis/fusefs/policy"
)

// choosePolicy returns the rules of an agent: its role's, and its own.
func choosePolicy(c config.Config, role string, more *api.Policy) (api.Policy, error) {
	p, err := rolePolicy(c, role)
	if err != nil {
		return p, err
	}
	return addRules(p, more)
}

func rolePolicy(c config.Config, role string) (api.Policy, error) {
	if role == "" {
		return api.Policy{}, nil
	}
	r, ok := c.Roles[role]
	if !ok {
		return api.Policy{}, api.Errorf(api.CodeBadRequest, "role = %q: there is no such role", api.Shorten(role, 64)).WithHint("roles are tables [roles.NAME] in polisd.toml")
	}
	return r.Policy, nil
}

// resetRules returns the rules of an agent with the named lists as its role has them now.
func resetRules(c config.Config, k store.Agent, lists []string) (api.Policy, error) {
	p := k.Policy
	reset := func(list string) bool { return slices.Contains(lists, list) }
	if !slices.ContainsFunc(api.ResetRules(), reset) {
		return p, nil
	}
	if k.RulesLost {
		// Its one rule, which withholds everything, is not the person's.
		return p, api.Errorf(api.CodeBadRequest, "the rules of agent %s were lost: there are none to reset", k.Name).
			WithHint("polisctl agents set %s --role ROLE gives it rules", k.Name)
	}
	role, err := rolePolicy(c, k.Role)
	if err != nil {
		return p, err
	}
	for _, l := range []struct {
		name     string
		to, from *[]string
	}{{"deny", &p.Deny, &role.Deny}, {"hide", &p.Hide, &role.Hide}, {"ask", &p.Ask, &role.Ask}, {"exclusive", &p.Exclusive, &role.Exclusive}} {
		if reset(l.name) {
			*l.to = *l.from
		}
	}
	return p, nil
}

// addRules appends rules to others. An existing rule moves to the end, because the last match
// decides.
func addRules(p api.Policy, more *api.Policy) (api.Policy, error) {
	if more != nil {
		add := func(to *[]string, rules []string) {
			*to = append(slices.DeleteFunc(slices.Clone(*to), func(r string) bool { return slices.Contains(rules, r) }), rules...)
		}
		add(&p.Read, more.Read)
		add(&p.Write, more.Write)
		add(&p.Ask, more.Ask)
		add(&p.Deny, more.Deny)
		add(&p.Hide, more.Hide)
		add(&p.Exclusive, more.Exclusive)
		p.Temp = p.Temp || more.Temp
	}
	if err := checkPolicy(p); err != nil || more == nil {
		return p, err
	}
	return p, checkNegated(p, *more)
}

func checkMemory(mb int) error {
	if mb < 16 || mb > 1<<20 {
		return api.Errorf(api.CodeBadRequest, "memory_limit_mb = %d: must be from 16 to 1048576", mb)
	}
	return nil
}

func checkPolicy(p api.Policy) error {
	for field, globs := range map[string][]string{"read": p.Read, "write": p.Write, "ask": p.Ask, "deny": p.Deny, "hide": p.Hide, "exclusive": p.Exclusive} {
		if len(globs) > maxRules {
			return api.Errorf(api.CodeBadRequest, "policy.%s has %d rules: at most %d", field, len(globs), maxRules)
		}
		for _, g := range globs {
			if g == "" || len(g) > maxWord || strings.ContainsRune(g, 0) {
				return api.Errorf(api.CodeBadRequest, "policy.%s: %q is not a rule: from 1 to %d bytes, no NUL", field, api.Shorten(g, 64), maxWord)
			}
		}
	}
	// A rule that the view would refuse must fail here.
	if _, err := policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide}); err != nil {
		return api.Errorf(api.CodeBadRequest, "%w", err)
	}
	if _, err := compile(p.Exclusive); err != nil {
		return api.Errorf(api.CodeBadRequest, "policy.exclusive: %w", err)
	}
	return nil
}
