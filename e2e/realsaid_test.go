//go:build agents

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	programhook "polis/daemon/rules/hook"
)

// TestRealSaid: a text for a real program at work is read by its model with the result of its next call of a
// tool, once, if the program has a hook for that; it is the next task of the others.
func TestRealSaid(t *testing.T) {
	install := os.Getenv("POLIS_AGENTS")
	require.NotEmpty(t, install, "make e2e-agents installs them")
	for _, p := range programhook.Programs() {
		for role, rules := range map[string]string{"": "", " that asks": "[roles.worker.tools]\nauto_approve = [\"read\", \"edit\", \"other\", \"shell\"]\n"} {
			t.Run(p.Name+role, func(t *testing.T) {
				r := startReal(t, install, p.Name, rules)
				r.hears(p.SaidFile() != "")
			})
		}
	}
}

// hears says something to the program while a call of a tool runs.
func (r *realRun) hears(atOnce bool) {
	t := r.t
	const said = "use the store package, please"
	r.model.play(
		shellStep("echo before"),
		shellStep("touch begun; while ! test -e go; do sleep 0.1; done; echo during"),
		shellStep("echo after"),
	)
	r.must("run", "--detach", r.name, "--", "work")
	r.eventually("the second call runs", func() bool { return r.exec(r.name, "test", "-e", "begun").code == 0 })
	got := r.said(r.name, said)
	want := api.SayQueued
	if atOnce {
		want = api.SayToolCall
	}
	require.Equal(t, want, got.Task.Said.Way)
	r.sh(r.name, "touch go")
	first := strings.Replace(got.Task.ID, ".2", ".1", 1)
	r.eventually("the task to end", func() bool { return r.taskRecord(first).State == api.TaskEnded })
	_, results := r.model.played()
	all := strings.Join(results, "\n---\n")
	if !atOnce {
		r.eventually("the text to be a task that has ended", func() bool { return r.taskRecord(got.Task.ID).State == api.TaskEnded })
		require.NotContains(t, all, said)
		require.Empty(t, r.taskRecord(got.Task.ID).Said.To)
		return
	}
	record := r.taskRecord(got.Task.ID)
	require.Equal(t, "delivered to "+first, record.Result, "%s\n%s", all, r.model.log())
	require.Equal(t, 1, strings.Count(r.model.heard(), said), "%s", r.model.heard())
	// What a task left is recorded a moment after its end.
	r.eventually("the text to be one step of the task", func() bool {
		steps := 0
		for _, s := range r.taskRecord(first).Steps {
			if s.Kind == api.StepSaid {
				steps++
			}
		}
		return steps == 1
	})
}
