package agenttext

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/internal/escape"
)

// Frozen is the state of an agent whose processes are frozen until a person decides.
const Frozen = "frozen"

// NeedsPerson reports whether an agent waits for a person.
func NeedsPerson(g api.Agent) bool {
	return g.Waiting != nil && g.Waiting.For != api.WaitingLease
}

// ByNeed orders agents for a list: those that wait for a person come first.
func ByNeed(a, b api.Agent) int {
	rank := func(g api.Agent) int {
		if NeedsPerson(g) {
			return 0
		}
		return 1
	}
	return cmp.Compare(rank(a), rank(b))
}

// WaitingState is the state of an agent that waits.
func WaitingState(w *api.Waiting) string {
	if w.For == api.WaitingThaw {
		return Frozen
	}
	return "waiting for " + w.For
}

// Waited says for how long an agent has waited, and for what, of which at most so many characters are shown.
func Waited(w *api.Waiting, now time.Time, most int) string {
	return WaitedBy(w, now, most, "polisctl approvals list")
}

// WaitedBy is Waited where a person lists the other questions of the agent in another way than by polisctl.
func WaitedBy(w *api.Waiting, now time.Time, most int, list string) string {
	ago := "-"
	if !w.Since.IsZero() {
		ago = Span(now.Sub(w.Since))
	}
	switch w.For {
	case api.WaitingThaw:
		return fmt.Sprintf("frozen %s ago: %s", ago, w.What)
	case api.WaitingLease:
		return fmt.Sprintf("has waited %s for %s", ago, w.What)
	}
	text := fmt.Sprintf("has waited %s for your answer to %s: %s", ago, w.ID, FirstLine(w.What, most))
	if w.Open > 1 {
		text += fmt.Sprintf(" (and %d more: %s)", w.Open-1, list)
	}
	return text
}

// FirstLine is the first line of a text, cut to so many characters.
func FirstLine(text string, most int) string {
	first, _, more := strings.Cut(escape.Spaces(text), "\n")
	if more {
		first = strings.TrimSuffix(first, "\r")
	}
	if r := []rune(first); len(r) > most {
		first, more = string(r[:most]), true
	}
	if more {
		first += "..."
	}
	return first
}

// Span formats a duration: 12s, 5m, 3h, 2d.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
