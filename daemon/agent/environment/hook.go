package environment

import (
	"polis/daemon/config"
	"polis/daemon/rules/hook"
)

// hookOf returns the hook that the shim installs for programs of a type, "" for none.
func hookOf(t config.BaseType) string {
	if t.Permissions.Kind != "hook" {
		return ""
	}
	p, _ := hook.ByFile(t.Permissions.File)
	return p.Name
}

// saidHookOf names the program whose hook asks what persons have said; "" for none.
func saidHookOf(t config.BaseType) string {
	p, ok := hook.ByName(hookOf(t))
	if !ok || p.SaidFile() == "" {
		return ""
	}
	return p.Name
}
