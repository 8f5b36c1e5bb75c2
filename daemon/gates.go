package daemon

import (
	"maps"
	"slices"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/gate"
	"polis/fusefs/policy"
	"polis/fusefs/shared"
)

// gate returns an agent's branch and the rules its changes are compared with
// before they come home. Rules that do not compile refuse everything.
func (w *workspace) gate(name string) (agent.Branch, gate.Rules, error) {
	b, err := w.d.agents.Prepared(name)
	if err != nil {
		return b, gate.Rules{}, err
	}
	p := b.Policy
	set, err := policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide})
	if err != nil {
		return b, gate.Rules{}, api.Errorf(api.CodeBadRequest, "rules of agent %s: %w", name, err)
	}
	rules := gate.Rules{Policy: set}
	for _, other := range slices.Sorted(maps.Keys(b.Exclusive)) {
		globs, err := gate.Compile(b.Exclusive[other])
		if err != nil {
			return b, rules, api.Errorf(api.CodeBadRequest, "exclusive paths of agent %s: %w", other, err)
		}
		rules.Others = append(rules.Others, gate.Claim{Agent: other, Paths: globs})
	}
	c := w.d.live()
	// What opens ignored files of the user's checkout to agents is never theirs
	// to say, whatever the list is.
	protected := append(slices.Clone(c.MergeRules(w.agents.Name).Protected), shared.IncludeFile)
	if rules.Protected, err = gate.Compile(protected); err != nil {
		return b, rules, api.Errorf(api.CodeInvalidConfig, "merge.protected: %w", err)
	}
	return b, rules, nil
}
