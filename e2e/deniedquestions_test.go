package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// deniedBy waits until a denial is an event, a receipt and in why of an agent, and returns the entry.
func (d *daemon) deniedBy(agent, text string) (found api.WhyEntry) {
	d.t.Helper()
	d.eventually("an event: "+text, func() bool {
		var out struct{ Events []api.Event }
		decode(d.t, d.must("--json", "events"), &out)
		for _, e := range out.Events {
			if e.Type == api.EventDenied && e.Agent == agent && strings.Contains(e.Message, text) && e.Code == api.CodeNotApproved {
				return true
			}
		}
		return false
	})
	d.eventually("a receipt: "+text, func() bool { return strings.Contains(d.must("receipts", "show", agent), text) })
	require.Contains(d.t, d.must("agents", "why", agent), strings.ReplaceAll(text, "user:0", "root"))
	var out struct{ Why []api.WhyEntry }
	decode(d.t, d.must("--json", "agents", "why", agent), &out)
	for _, w := range out.Why {
		if w.By != "" && strings.Contains(api.DeniedText(w.By, w.Path, w.Reason), text) {
			return w
		}
	}
	require.Fail(d.t, "it has no person or rule", "%s: %+v", text, out.Why)
	return found
}

// TestADeniedQuestionLeavesATrace: a rule or a person who denies it is named in an event, a receipt, why, a step of the task
// and its result, and it is counted. A person's denial is that person's.
func TestADeniedQuestionLeavesATrace(t *testing.T) {
	d := startDaemon(t, options{config: `
[roles.worker]
ask = ["secret/**"]
[roles.worker.tools]
auto_deny = ["shell(rm *)"]
[roles.closed.tools]
default = "deny"
`})
	d.up()
	d.worker("alice", "--role", "worker")
	d.worker("carol", "--role", "closed")

	// traced runs a task whose question is denied, by answer if a person does.
	traced := func(agent, script, text string, counts func(*api.TaskUse) int64, answer func(id string)) api.Task {
		t.Helper()
		d.eventually(agent+" is idle", func() bool { a, _ := d.agent(agent); return a.Status == api.StatusIdle })
		d.must("agents", "run", agent, script)
		if answer != nil {
			answer(d.question(agent).ID)
		}
		tk := d.taskOf(d.settled(agent).ID)
		d.deniedBy(agent, text)
		require.Contains(t, tk.Result, text)
		require.Equal(t, int64(1), counts(tk.Use), "%+v", tk.Use)
		found := false
		for _, s := range tk.Steps {
			found = found || s.Kind == api.StepRefused && strings.HasSuffix(s.Text, text)
		}
		require.True(t, found, "%q is no step: %+v", text, tk.Steps)
		require.NotContains(t, fmt.Sprintf("%+v", tk), "own rules")
		require.Contains(t, d.must("tasks", "show", tk.ID), text)
		return tk
	}
	questions := func(u *api.TaskUse) int64 { return u.QuestionsDenied }
	reads := func(u *api.TaskUse) int64 { return u.ReadsDenied }
	deny := func(args ...string) func(string) {
		return func(id string) { d.must(append([]string{"approvals", "deny", id}, args...)...) }
	}
	traced("alice", "polisctl ask -- rm -rf deploy || true", "auto_deny of the role denied bash rm -rf deploy: the rule shell(rm *) of the role denies it", questions, nil)
	traced("carol", "polisctl ask -- make || true", "default of the role denied bash make: no rule of the role approves it", questions, nil)
	traced("alice", "polisctl ask -- deploy/x || true", "root denied bash deploy/x: not today", questions, deny("not today"))
	traced("alice", "polisctl ask -- deploy/y || true", "root denied bash deploy/y: no", questions, deny("no", "--for", "agent"))
	tk := traced("alice", "polisctl ask -- deploy/y || true", "of user:0 denied bash deploy/y: no", questions, nil)
	require.Contains(t, tk.Result, "answer alice.")
	traced("alice", "cat secret/key.txt || true", "root denied secret/key.txt: it is secret", reads, deny("it is secret"))
	require.Contains(t, d.must("metrics", "--prometheus"), `polis_agent_questions_denied_total{agent="alice"`)

	// A question that is withdrawn is denied by no person. One that nobody answered in time is in why, without a name.
	d.eventually("alice is idle", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })
	before := d.must("--json", "agents", "why", "alice")
	asked := d.asking("alice", "polisctl ask -- make gone & p=$!; while ! test -e ~/seen; do sleep 0.05; done; kill $p; wait $p || true")
	d.question("alice")
	d.must("agents", "exec", "alice", "--", "sh", "-c", "touch ~/seen")
	<-asked
	d.eventually("the question is withdrawn", func() bool { return len(d.questions()) == 0 })
	require.NotContains(t, d.must("agents", "why", "alice"), "make gone")
	require.Equal(t, strings.Count(before, `"op": "tool"`), strings.Count(d.must("--json", "agents", "why", "alice"), `"op": "tool"`))
	require.NotZero(t, d.exec("alice", "polisctl", "ask", "--timeout", "1s", "--", "make late").code)
	require.Contains(t, d.must("agents", "why", "alice"), "nobody answered within 1s")
}
