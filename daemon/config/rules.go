package config

import (
	"fmt"
	"maps"
	"slices"

	"polis/daemon/api"
	"polis/fusefs/policy/glob"
)

// IdleRule is the error for a rule that begins with "!" and negates nothing.
func IdleRule(code api.Code, field, rule string) *api.Error {
	return api.Errorf(code, "%s = %q: negates nothing: no rule before it in the list names what it names", field, api.Shorten(rule, 200)).
		With("field", field).With("rule", rule).With("escaped", `\`+rule).
		WithHint(`for a name that begins with "!" write '\%s'; for an exception put it after the rule that it is an exception of`, rule)
}

// checkRuleList checks the form of a list of rules in which the last match decides.
func checkRuleList(field string, globs []string) error {
	patterns := make([]*glob.Pattern, 0, len(globs))
	for i, g := range globs {
		p, err := glob.Compile(g)
		if err != nil {
			return api.Errorf(api.CodeInvalidConfig, "%s[%d] = %q: must be a pattern as in gitignore(5): %w", field, i, api.Shorten(g, 200), err)
		}
		patterns = append(patterns, p)
	}
	if i, idle := glob.Idle(patterns); idle {
		return IdleRule(api.CodeInvalidConfig, fmt.Sprintf("%s[%d]", field, i), globs[i])
	}
	return nil
}

// checkPositive checks the form of a list of rules that knows no exceptions.
func checkPositive(field string, globs []string) error {
	for i, g := range globs {
		p, err := glob.Compile(g)
		if err != nil {
			return api.Errorf(api.CodeInvalidConfig, "%s[%d] = %q: must be a pattern as in gitignore(5): %w", field, i, api.Shorten(g, 200), err)
		}
		if p.Negated() {
			return negatedRule(fmt.Sprintf("%s[%d]", field, i), g)
		}
	}
	return nil
}

// negatedRule is the error for a rule that begins with "!" in a list that knows no exceptions.
func negatedRule(field, rule string) *api.Error {
	return api.Errorf(api.CodeInvalidConfig, `%s = %q: cannot begin with "!": the list has no exceptions`, field, api.Shorten(rule, 200)).
		With("field", field).With("rule", rule).With("escaped", `\`+rule).
		WithHint(`for a name that begins with "!" write '\%s'`, rule)
}

// checkRoleRules checks the rules of roles.
func (c *Config) checkRoleRules() error {
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		p := c.Roles[name].Policy
		for _, l := range []struct {
			list  string
			globs []string
		}{{"read", p.Read}, {"write", p.Write}, {"ask", p.Ask}, {"deny", p.Deny}, {"hide", p.Hide}, {"exclusive", p.Exclusive}} {
			if err := checkRuleList("roles."+name+"."+l.list, l.globs); err != nil {
				return err
			}
		}
	}
	return nil
}
