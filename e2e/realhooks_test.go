//go:build agents

package e2e

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	programhook "polis/daemon/rules/hook"
)

// TestRealHooks: the real programs ask before they use a tool. What a rule approves continues; the
// policy's and a lease's refusals, and a person's, reach the model in words before the tool runs.
func TestRealHooks(t *testing.T) {
	install := os.Getenv("POLIS_AGENTS")
	require.NotEmpty(t, install, "make e2e-agents installs them")
	for _, name := range slices.Sorted(maps.Keys(realAgents)) {
		if _, ok := programhook.ByName(name); !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := startReal(t, install, name, "[roles.worker.tools]\nauto_approve = [\"read\", \"edit\", \"other\", \"shell(cat *)\", \"shell(sed *)\", \"shell(cp *)\"]\nauto_deny = [\"shell(*forbidden*)\"]\n")
			r.asksFirst()
		})
	}
}

func (r *realRun) asksFirst() {
	t := r.t
	r.add("holder")
	r.sh("holder", "echo four >> main.txt")
	dir := strings.TrimSpace(r.sh(r.name, "pwd"))
	r.model.play(
		readStep(dir+"/README.md"),
		editStep(dir+"/main.txt", "two", "TWO"),
		writeStep(dir+"/key.pem", "x\n"),
		shellStep("echo forbidden > one.txt"),
		shellStep("echo two > two.txt"),
		shellStep("echo three > three.txt"),
		writeStep(dir+"/big.txt", strings.Repeat("x", programhook.MaxInput)), // the hook fails
		shellStep("cp README.md deploy.txt"),                                 // a rule approves the tool; the path asks at the system call
		shellStep("git add two.txt && git commit -qm 'asked'"),
	)
	before, reads := r.answeredQuestions(), 0
	r.must("run", "--detach", r.name, "--", "work")
	for _, a := range []struct{ what, verdict string }{{"two.txt", "approve"}, {"three.txt", "deny"}, {"deploy.txt", "approve"}, {"git commit", "approve"}} {
		q := r.question(r.name)
		for q.Kind == api.ApprovalRead { // by its watcher of files
			r.must("approvals", "deny", q.ID)
			reads++
			q = r.question(r.name)
		}
		require.Contains(t, q.What, a.what, "%s", r.model.log())
		if a.what == "deploy.txt" {
			require.Equal(t, api.ApprovalWrite, q.Kind)
		} else {
			require.Equal(t, api.ToolShell, q.Class)
		}
		args := []string{"approvals", a.verdict, q.ID}
		if a.verdict == "deny" {
			args = append(args, "not on a Friday")
		}
		r.must(args...)
		r.eventually("the answer is given", func() bool { return len(r.questions()) == 0 || r.questions()[0].ID != q.ID })
	}
	r.ended()
	got := r.settled(r.name)
	_, results := r.model.played()
	say := func() string {
		return strings.Join(results, "\n---\n") + r.model.log() + r.must("agents", "watch", "-n", "200", r.name)
	}
	require.Equal(t, api.OutcomeMerged, got.Outcome, "%+v\n%s", got, say())
	require.Len(t, results, 9, "%s", say())
	require.Contains(t, results[1], "main.txt is locked by holder since ", "%s", say())
	require.Contains(t, results[1], "polisctl wait main.txt")
	require.Contains(t, results[2], "does not allow it to change key.pem")
	require.Contains(t, results[3], "forbidden")
	require.Contains(t, results[3], "of the role denies it")
	require.Contains(t, results[5], "not on a Friday")
	require.True(t, r.model.knowsPolis(), "its model has the text of polis")
	files := git(t, r.project, "ls-files")
	require.Contains(t, files, "two.txt")
	require.NotContains(t, results[7], "denied", "the command continues after the answer")
	for _, no := range []string{"one.txt", "three.txt", "key.pem", "big.txt"} {
		require.NotContains(t, files, no)
	}
	require.Equal(t, before+4+reads, r.answeredQuestions(), "rules and refusals made no question")
	why := r.must("agents", "why", r.name, "--json")
	require.NotContains(t, why, "key.pem", "no tool ran into a refusal")

	// The agent cannot change the configuration.
	p, _ := programhook.ByName(r.name)
	require.NotZero(t, r.exec(r.name, "sh", "-c", "echo > "+p.File).code)
	require.NotZero(t, r.exec(r.name, "rm", "-rf", p.File).code)
}

// answeredQuestions is how many questions were answered by people until now.
func (r *realRun) answeredQuestions() int {
	return strings.Count(r.must("events", "--json"), string(api.EventApprovalAnswered))
}
