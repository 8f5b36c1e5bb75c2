package main

import (
	"strings"
	"time"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
)

// shownSteps is how many of a task's last steps are shown.
const shownSteps = 20

// stepsText shows the last steps of a task, and its answer.
func stepsText(p *page, t api.Task) {
	steps := t.Steps[max(0, len(t.Steps)-shownSteps):]
	answer := ""
	if t.Report != nil {
		answer = t.Report.Answer
	}
	if n := len(steps); n > 0 && steps[n-1].Kind == api.StepSay && answer != "" {
		steps = steps[:n-1] // it is the answer
	}
	if len(steps) > 0 {
		p.line("")
	}
	if more := t.StepCount - len(steps); len(steps) > 0 && more > 1 {
		p.line("  %s before: polisctl --json tasks show %s has the last %d", api.Count(more, "step"), t.ID, len(t.Steps))
	}
	for _, st := range steps {
		p.line("  %s %-8s %s", st.Time.Local().Format(time.TimeOnly), string(st.Kind), firstLine(st.Text, 200)+agenttext.StepEnd(st))
	}
	if answer != "" {
		p.line("")
		p.text("  " + strings.ReplaceAll(answer, "\n", "\n  "))
	}
}
