package task

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

// ownRefusals is how many calls the agent's own rules refused.
func ownRefusals(t api.Task) int {
	if t.Report == nil {
		return 0
	}
	return t.Report.OwnRefusals
}

// refused names what the agent's own rules refused.
func refused(t api.Task) string {
	text := "refused by its own rules"
	if names := t.Report.OwnRefused; len(names) > 0 {
		text += ": " + api.Shorten(names[0], maxCall)
	}
	if more := ownRefusals(t) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// denied is the last denial of something that the task asked for, by a person or by a rule, and how many more there were.
func denied(t api.Task) string {
	text, more := "", 0
	for _, w := range t.Refused { // the newest first
		if w.By == "" {
			continue
		}
		if text != "" {
			more += max(w.Count, 1)
			continue
		}
		text, more = api.DeniedText(w.By, api.Shorten(w.Path, maxCall), api.Shorten(w.Reason, maxCall)), max(w.Count, 1)-1
	}
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func named(paths []string) string {
	if len(paths) == 0 {
		return "-"
	}
	out := strings.Join(paths[:min(len(paths), maxNamed)], ", ")
	if more := len(paths) - maxNamed; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
