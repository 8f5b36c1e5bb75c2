package gate

import (
	"maps"
	"slices"

	"polis/daemon/api"
	"polis/fusefs/policy"
)

// Compiled compiles the rules that the work of an agent is compared with: its own policy, the
// exclusive paths of other agents by name, and the protected paths. With an error the
// caller must refuse everything.
func Compiled(agent string, p api.Policy, exclusive map[string][]string, protected []string) (Rules, error) {
	set, err := policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide})
	if err != nil {
		return Rules{}, api.Errorf(api.CodeBadRequest, "rules of agent %s: %w", agent, err)
	}
	rules := Rules{Policy: set}
	for _, other := range slices.Sorted(maps.Keys(exclusive)) {
		globs, err := Compile(exclusive[other])
		if err != nil {
			return Rules{}, api.Errorf(api.CodeBadRequest, "exclusive paths of agent %s: %w", other, err)
		}
		rules.Others = append(rules.Others, Claim{Agent: other, Paths: globs})
	}
	if rules.Protected, err = CompileProtected(protected); err != nil {
		return Rules{}, api.Errorf(api.CodeInvalidConfig, "merge.protected: %w", err)
	}
	return rules, nil
}
