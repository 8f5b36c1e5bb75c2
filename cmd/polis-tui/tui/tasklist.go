package tui

import (
	"fmt"
	"strings"
	"time"

	"polis/cmd/internal/agenttext"
	"polis/cmd/internal/modeltext"
	"polis/daemon/api"
	"polis/internal/escape"
)

// shownSteps is how many steps of a task are shown.
const shownSteps = 30

// taskDetails are the lines about a task.
func (m *Model) taskDetails(t api.Task) []string {
	if w := m.taskScreen.whole; w.ID == t.ID {
		t = w
	}
	var out []string
	say := func(label, text string) { out = append(out, labelled(label, escape.Spaces(text), m.inner())...) }
	lines := func(label, text string) { // each line for itself: wrapping joins none
		for line := range strings.Lines(text) {
			say(label, line)
			label = ""
		}
	}
	say("result", taskResult(t))
	lines("prompt", t.Prompt)
	if t.Waits != nil {
		say("waits", t.Waits.Text())
	}
	times := "given " + t.Time.Local().Format(time.DateTime)
	if t.Began != nil {
		times += ", took " + m.took(t)
	}
	say("time", times)
	if t.Commits > 0 {
		text := api.Count(t.Commits, "commit") + " (key d shows the diff)"
		if t.MergeCommitSHA != "" {
			text += ", merged as " + short(t.MergeCommitSHA)
		}
		say("work", text)
	}
	if u := t.Models; u != nil {
		text := modeltext.TokensOf(u) + " tokens"
		if cost := modeltext.Cost(u); cost != modeltext.None {
			text += ", " + cost
		}
		say("models", text)
	}
	lines("message", t.Message)
	if t.CheckOutput != "" {
		say("check", fmt.Sprintf("polisctl queue log %s --check %d has all of it:", t.Agent, t.Check))
		for line := range strings.Lines(t.CheckOutput) {
			out = append(out, "  | "+verbatim(line))
		}
	}
	return append(out, stepLines(t)...)
}

// stepLines are the last steps of a task, a line each.
func stepLines(t api.Task) (out []string) {
	steps := t.Steps[max(0, len(t.Steps)-shownSteps):]
	if more := t.StepCount - len(steps); len(steps) > 0 && more > 0 {
		out = append(out, "  "+api.Count(more, "step")+" before")
	}
	for _, st := range steps {
		kind := string(st.Kind)
		if st.Failed {
			kind += "!"
		}
		text, _, _ := strings.Cut(st.Text, "\n")
		out = append(out, fmt.Sprintf("  %s %-8s %s", st.Time.Local().Format(time.TimeOnly), verbatim(kind), verbatim(text)+agenttext.StepEnd(st)))
	}
	return out
}
