package isolation

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

// Names returns the names of what is missing.
func Names(lost []api.Loss) []string {
	var out []string
	for _, l := range lost {
		out = append(out, l.Capability)
	}
	return out
}

// Mode returns how agents are isolated on this machine, as the API names it.
func Mode(lost []api.Loss) string {
	if len(lost) > 0 {
		return "degraded"
	}
	return "full"
}

// Warnings returns what people read about the missing isolation, nothing if none is missing. allow
// is sandbox.degraded = "allow": agents run without it. Without a mount namespace none runs.
func Warnings(lost []api.Loss, allow bool) []string {
	if len(lost) == 0 {
		return nil
	}
	then := `agents are refused; sandbox.degraded = "allow" adds them without`
	switch {
	case Lacks(lost, Mount):
		then = "agents are refused"
	case allow:
		then = "agents go without"
	}
	out := []string{fmt.Sprintf("%s: isolation is degraded, %s: %s", api.CodeSysboxUnavailable, then, strings.Join(Names(lost), ", "))}
	for _, l := range lost {
		out = append(out, fmt.Sprintf("%s: no %s isolation: %s (%s)", l.Code, l.Capability, l.Cost, l.Found))
	}
	return out
}
