package environment

import (
	"polis/daemon/config"
	"polis/daemon/shim/wire"
)

// claudeHookFile is where a base type says that its program has the hook of Claude Code.
const claudeHookFile = "/etc/claude-code/managed-settings.d/polis.json"

// hookOf returns the hook that the shim installs for programs of a type, "" for none.
func hookOf(t config.BaseType) string {
	if t.Permissions.Kind == "hook" && t.Permissions.File == claudeHookFile {
		return wire.HookClaude
	}
	return ""
}
