package policylearn

import (
	"polis/fusefs/policy"
)

// Refusal is a use that rules do not allow.
type Refusal struct {
	Use
	// Verdict is "deny", "ask" or "hide".
	Verdict string `json:"verdict"`
	// Rule is the rule that decides; "" if no rule names the path.
	Rule string `json:"rule,omitempty"`
}

// Check returns the uses that the rules do not allow. A tree is allowed if everything below it is.
func Check(set *policy.Set, uses []Use) (out []Refusal) {
	for _, u := range uses {
		if v, rule := verdict(set, u); v != policy.Allow {
			out = append(out, Refusal{Use: u, Verdict: v.String(), Rule: rule})
		}
	}
	return out
}

func verdict(set *policy.Set, u Use) (policy.Verdict, string) {
	if u.Tree {
		return treeVerdict(set, u)
	}
	d := set.DecideThrough(u.Path, u.Dir)
	switch {
	case !u.Write:
		return d.Read, d.Rule
	case u.Dir && !u.Attr && d.Write == policy.Deny && set.SomeWritable(u.Path):
		return policy.Allow, d.Rule // on the way to something that may be written
	}
	return d.Write, d.Rule
}

func treeVerdict(set *policy.Set, u Use) (policy.Verdict, string) {
	if u.Write && set.AllWritable(u.Path) || !u.Write && set.AllReadable() {
		return policy.Allow, ""
	}
	// Any name below decides about what the rules name as a whole.
	probe := "polis-any-name"
	if u.Path != "" {
		probe = u.Path + "/" + probe
	}
	d := set.Decide(probe, false)
	if u.Write {
		return d.Write, d.Rule
	}
	return d.Read, d.Rule
}
