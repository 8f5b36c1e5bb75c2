package main

import (
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// chooseBase settles on the type of the first agent.
func chooseBase(ans *initAnswers, types []client.AgentType, available []string, ask *prompter) error {
	if ans.base == "" && len(available) > 0 {
		ans.base = available[0]
		if slices.Contains(available, "claude") {
			ans.base = "claude"
		}
		if ask != nil {
			var err error
			if ans.base, err = ask.line("Base type of the first agent ("+strings.Join(available, ", ")+")", ans.base); err != nil {
				return err
			}
		}
	}
	i := slices.IndexFunc(types, func(t client.AgentType) bool { return t.Name == ans.base })
	switch {
	case ans.base == "":
		hint := "polisctl agents types lists them"
		if i := slices.IndexFunc(types, func(t client.AgentType) bool { return t.Name == "claude" && t.Install != "" }); i >= 0 {
			hint = types[i].Install
		}
		return api.Errorf(api.CodeAgentTypeUnavailable, "no program of an agent is installed").WithHint("%s; for a command of your own: polisctl init --base custom", hint)
	case i < 0:
		return api.Errorf(api.CodeAgentTypeUnavailable, "there is no base type %q", api.Shorten(ans.base, 64)).WithHint("polisctl agents types lists them")
	case !types[i].Available:
		return api.Errorf(api.CodeAgentTypeUnavailable, "base type %s cannot be used: %s", ans.base, types[i].Reason).
			WithHint("%s", orElse(types[i].Install, "install "+types[i].Program+" for all users"))
	}
	return nil
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
