package tui

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"polis/cmd/internal/modeltext"
	"polis/daemon/api"
)

// shownSteps is how many steps of the newest task are shown.
const shownSteps = 30

// taskList is an agent's tasks, a line each, the newest last, with the last steps of the newest
// one that has begun.
func (m *Model) taskList(ctx context.Context, agent string) (io.ReadCloser, error) {
	tasks, err := m.daemon.Tasks(ctx, agent)
	if err != nil {
		return nil, err
	}
	newest := ""
	for _, t := range tasks {
		if t.ID != "" && t.Began != nil {
			newest = t.ID
		}
	}
	var b strings.Builder
	for _, t := range tasks {
		result := t.Result
		if t.Via != "" {
			result = "(" + t.Via + ")"
		}
		if t.Waits != nil {
			result += ": " + t.Waits.Text()
		}
		prompt, _, _ := strings.Cut(t.Prompt, "\n")
		if u := t.Models; u != nil {
			result += ", " + modeltext.TokensOf(u) + " tokens"
			if cost := modeltext.Cost(u); cost != modeltext.None {
				result += ", " + cost
			}
		}
		fmt.Fprintf(&b, "%-12s %s  %-24s %s\n", clean(t.ID), t.Time.Local().Format(time.DateTime), clean(result), clean(prompt))
		if newest != "" && t.ID == newest {
			// Lists of tasks have no steps. A task can be removed in between: it has none then.
			if full, err := m.daemon.Task(ctx, t.ID, 0); err == nil {
				writeSteps(&b, full)
				writeCheck(&b, full)
			}
		}
	}
	return io.NopCloser(strings.NewReader(b.String())), nil
}

// writeCheck writes the end of the output of a task's failed check.
func writeCheck(b *strings.Builder, t api.Task) {
	if t.CheckOutput == "" {
		return
	}
	writeMarked(b, t.CheckOutput)
	fmt.Fprintf(b, "  all of it: polisctl queue log %s --check %d\n", t.Agent, t.Check)
}

// writeSteps writes the last steps of a task, a line each.
func writeSteps(b *strings.Builder, t api.Task) {
	steps := t.Steps[max(0, len(t.Steps)-shownSteps):]
	if more := t.StepCount - len(steps); len(steps) > 0 && more > 0 {
		fmt.Fprintf(b, "  %s before\n", api.Count(more, "step"))
	}
	for _, st := range steps {
		kind := string(st.Kind)
		if st.Failed {
			kind += "!"
		}
		text, _, _ := strings.Cut(st.Text, "\n")
		fmt.Fprintf(b, "  %s %-8s %s\n", st.Time.Local().Format(time.TimeOnly), clean(kind), clean(text))
	}
}
