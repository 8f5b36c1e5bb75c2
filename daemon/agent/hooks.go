package agent

import (
	"polis/daemon/config"
	"polis/daemon/git/githooks"
)

// hooksWarning reports that git hooks of the project do not run for the agent. rule is git.hooks.
func hooksWarning(a *Agent, rule string) []string {
	found := a.Hooks.Load()
	if found == nil {
		return nil
	}
	h := *found
	h.Run = rule == config.HooksRun
	if text := githooks.Notice(&h); text != "" {
		return []string{text}
	}
	return nil
}
