package reference

import (
	"reflect"
	"slices"

	"polis/daemon/config"
)

// Daemon describes polisd.toml.
func Daemon() File {
	return File{
		Page: "polisd.toml", Path: config.DefaultFile, What: "configuration of polisd",
		Intro: []string{
			"The file is TOML. A key that is missing has its default value. An unknown key is an error. Durations are written as \"300ms\", \"3s\" or \"2m\".",
			"`polisd --check` checks the file. On SIGHUP (`systemctl reload polisd`) polisd reads it again; it refuses an invalid file and keeps the old configuration.",
			"Editors that know JSON schemas can check the file: /usr/share/polis/polisd.schema.json.",
		},
		Tables: slices.Concat([]Table{topLevel()}, networkTables(), lockTables(), limitTables(), sandboxTables(), gitTables(), mergeTables(), patrolTables(), gatewayTables(), roleTables()),
		Example: `max_agents = 4

[locks]
on_conflict = "1s"

[[locks.rule]]
glob = "CHANGELOG.md"
hold = "close"

[roles.docs]
read = ["**"]
write = ["docs/**", "*.md"]
deny = [".env"]`,
		SeeAlso: []string{"polisd(8)", "polisctl(1)", "polis-agents.d(5)"},
	}
}

// Types describes the files of base types.
func Types() File {
	return File{
		Page: "polis-agents.d", Path: "/etc/polis/agents.d/NAME.toml", What: "base types of polis agents",
		Intro: []string{
			"A base type describes how one kind of coding agent is started, and what it needs. A file adds the type NAME, or replaces the built-in one with that name.",
			"The files are TOML. An unknown key is an error. A change applies without a restart of polisd: command lines, variables, copies in the home and answers " +
				"to the next task, mounts and the identity from the agent's next start. `polisctl agents types NAME` shows a whole type.",
		},
		Tables: typeTables(),
		Example: `description = "My agent"
program = "my-agent"
run = ["my-agent", "--task", "--", "{prompt}"]
interactive = ["my-agent"]
pass_env = ["MY_AGENT_KEY"]
hosts = ["api.example.org"]`,
		SeeAlso: []string{"polisd.toml(5)", "polisctl-agents-types(1)"},
	}
}

// values returns the defaults of the structs that the files are decoded into.
func (f File) values() reflect.Value {
	if f.Page == "polisd.toml" {
		return reflect.ValueOf(config.Default())
	}
	return reflect.ValueOf(config.BaseType{})
}
