package policyrecord

import (
	"errors"
	"fmt"
	"strconv"

	"polis/daemon/api"
	"polis/daemon/history/policylearn"
	"polis/fusefs/policy"
)

// shownWithheld bounds how many refusals the comments of a learned role have.
const shownWithheld = 20

// Learn returns a role that allows what was used. answer has the names of the agent, the workspace and
// the new role.
func Learn(r Record, answer api.LearnedPolicy) (api.LearnedPolicy, error) {
	in := r.Last.Policy
	inForce := policy.Rules{Ask: in.Ask, Deny: in.Deny, Hide: in.Hide, Temp: r.Last.Temp}
	l, err := policylearn.Learn(r.Used, inForce, policylearn.Options{})
	if errors.Is(err, policylearn.ErrNothing) {
		return answer, api.Errorf(api.CodeNotFound, "agent %s used no path that a rule could allow in the chosen runs", answer.Agent).
			WithHint("a role without rules would allow everything: let the agent work first")
	}
	if err != nil {
		return answer, err
	}
	set, err := policy.Compile(l.Rules)
	if err != nil {
		return answer, fmt.Errorf("the learned rules: %w", err)
	}
	answer.Runs, answer.Incomplete = r.Runs, append([]string{}, r.Incomplete...)
	answer.Policy = api.Policy{Read: l.Rules.Read, Write: l.Rules.Write, Ask: in.Ask, Deny: in.Deny, Hide: in.Hide, Exclusive: in.Exclusive, Temp: in.Temp}
	answer.Withheld = []api.PolicyRefusal{}
	for _, w := range l.Withheld {
		answer.Withheld = append(answer.Withheld, refusal(w, false))
	}
	for _, w := range policylearn.Check(set, r.Denied) {
		answer.Withheld = append(answer.Withheld, refusal(w, true))
	}
	for _, n := range r.Barred {
		answer.Withheld = append(answer.Withheld, api.PolicyRefusal{Name: n, Verdict: policy.Deny.String(), Refused: true})
	}
	switch list, ok := policylearn.Egress(r.Names); {
	case r.Unseen:
		answer.Incomplete = append(answer.Incomplete, "the agent used the network of the host, where names are not seen: the role has no egress")
	case !ok:
		answer.Incomplete = append(answer.Incomplete, "the names that were resolved are too many for a list, or cannot be in one: the role has no egress")
	default:
		answer.Egress = list
	}
	answer.TOML = text(answer)
	return answer, nil
}

// Check returns what a role with these rules and this egress would have refused. answer has the names.
func Check(r Record, rules policy.Rules, egress []string, answer api.PolicyCheck) (api.PolicyCheck, error) {
	set, err := policy.Compile(rules)
	if err != nil {
		return answer, err
	}
	answer.Runs, answer.Incomplete, answer.Refused = r.Runs, append([]string{}, r.Incomplete...), []api.PolicyRefusal{}
	for _, w := range policylearn.Check(set, r.Used) {
		answer.Refused = append(answer.Refused, refusal(w, false))
	}
	for _, w := range policylearn.Check(set, r.Denied) {
		answer.Refused = append(answer.Refused, refusal(w, true))
	}
	if r.Unseen {
		answer.Incomplete = append(answer.Incomplete, "the agent used the network of the host, where names are not seen")
		return answer, nil
	}
	for i, names := range [][]string{r.Names, r.Barred} {
		verdicts, err := policylearn.CheckNames(egress, names)
		if err != nil {
			return answer, err
		}
		for _, n := range names {
			if v := verdicts[n]; v != "" {
				answer.Refused = append(answer.Refused, api.PolicyRefusal{Name: n, Verdict: v, Refused: i == 1})
			}
		}
	}
	return answer, nil
}

func refusal(r policylearn.Refusal, then bool) api.PolicyRefusal {
	return api.PolicyRefusal{Path: api.EncodePath(r.Path), Write: r.Write, Dir: r.Dir, Tree: r.Tree, Verdict: r.Verdict, Rule: r.Rule, Refused: then}
}

// runs is the value of --run for these runs, or for more than these.
func runs(list []api.RecordedRun) string {
	if len(list) == 1 {
		return strconv.Itoa(list[0].Run)
	}
	return "all"
}

// text returns the role as text for polisd.toml, with what a person must know before using it.
func text(l api.LearnedPolicy) string {
	first, last := l.Runs[0], l.Runs[len(l.Runs)-1]
	about := []string{
		fmt.Sprintf("Learned from what agent %s used in %s, from %s to %s.", l.Agent, api.Count(len(l.Runs), "run"), first.Began.UTC().Format("2006-01-02 15:04"), last.Began.UTC().Format("2006-01-02 15:04")),
		"Review it before use: it allows what was done, whether or not it should have been.",
	}
	for _, r := range l.Runs {
		if r.Cut > 0 {
			about = append(about, fmt.Sprintf("Run %d: %s of an entry that polisd had not completed when it ended were cut.", r.Run, api.Count(int(r.Cut), "byte")))
		}
	}
	for _, why := range l.Incomplete {
		about = append(about, "Incomplete: "+why+".")
	}
	for i, w := range l.Withheld {
		if i == shownWithheld {
			about = append(about, fmt.Sprintf("Not allowed: %d more; polisctl --json policy learn %s --run %s has all.", len(l.Withheld)-i, l.Agent, runs(l.Runs)))
			break
		}
		about = append(about, "Not allowed: "+Describe(w)+".")
	}
	role := policylearn.Table{Name: "roles." + l.Role, Lists: []policylearn.List{{Name: "read", Values: l.Policy.Read}, {Name: "write", Values: l.Policy.Write}, {Name: "ask", Values: l.Policy.Ask},
		{Name: "deny", Values: l.Policy.Deny}, {Name: "hide", Values: l.Policy.Hide}, {Name: "exclusive", Values: l.Policy.Exclusive}}}
	if l.Policy.Temp {
		role.Lines = append(role.Lines, "temp = true")
	}
	tables := []policylearn.Table{role}
	if l.Egress != nil {
		tables = append(tables, policylearn.Table{Name: role.Name + ".network", Lists: []policylearn.List{{Name: "egress", Values: l.Egress}}})
	}
	return policylearn.TOML(about, tables...)
}

// Describe returns a refusal as text.
func Describe(r api.PolicyRefusal) string {
	what := "read"
	switch {
	case r.Name != "":
		what = "resolve"
	case r.Write:
		what = "write"
	}
	out := what + " " + r.Name + r.Path
	switch {
	case r.Name != "":
	case r.Path == "":
		out += "the root directory"
	case r.Tree:
		out += " and all below it"
	}
	if r.Rule != "" {
		out += " (" + r.Rule + ")"
	}
	return out
}
