package agent

import (
	"fmt"
	"slices"
	"strings"

	"polis/daemon/agent/home"
	"polis/daemon/api"
	"polis/daemon/config"
)

// noLogin returns a warning if the program of an agent has no way to log in: the project's owner has none of
// the files of a login that its type names, and none of the type's variables is set for the agent.
func noLogin(v api.Agent, t config.BaseType, owner int) []string {
	var files []string
	for _, f := range t.Home {
		if f.Mode == config.HomeCredentials {
			files = append(files, f.Path)
		}
	}
	if len(files) == 0 || len(v.Command) > 0 || len(t.PassedEnv) > 0 || home.HasAny(owner, files) {
		return nil
	}
	key := ""
	for _, name := range t.PassEnv {
		if slices.Contains(v.Env, name) {
			return nil
		}
		if key == "" && (strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_TOKEN")) {
			key = name
		}
	}
	text := fmt.Sprintf("%s is not logged in: its project's owner has no %s", t.Program, strings.Join(files, " or "))
	if t.Login != "" {
		text += fmt.Sprintf("; as the owner run: %s", t.Login)
	}
	if key != "" {
		text += fmt.Sprintf("; or: polisctl agents set %s --env %s", v.Name, key)
	}
	return []string{text}
}
