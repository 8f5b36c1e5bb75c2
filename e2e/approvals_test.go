package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// questions returns the open questions.
func (d *daemon) questions() []api.Approval {
	d.t.Helper()
	var out struct{ Approvals []api.Approval }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "approvals", "list")), &out))
	return out.Approvals
}

// question waits until an agent asks a question, and returns it.
func (d *daemon) question(agent string) api.Approval {
	d.t.Helper()
	var found api.Approval
	d.eventually("agent "+agent+" asks", func() bool {
		for _, v := range d.questions() {
			if v.Agent == agent {
				found = v
				return true
			}
		}
		return false
	})
	return found
}

// asking starts a command in an agent that asks a question. The channel gets the result when the
// command has ended.
func (d *daemon) asking(agent, script string) <-chan result {
	out := make(chan result, 1)
	go func() { out <- d.exec(agent, "sh", "-c", script) }()
	return out
}

// working is asking as the agent's own program: a task. Its result is in the agent's home directory, as the log of an agent
// does not keep output and errors apart.
func (d *daemon) working(agent, script string) <-chan result {
	out := make(chan result, 1)
	go func() {
		ran := d.ctl("run", "--wait", agent, "rm -f ~/code; set +e; ("+script+"\n) >~/out 2>~/err; echo $? >~/code")
		r := result{code: -1, stdout: readFile(d.home(agent, "out")), stderr: readFile(d.home(agent, "err"))}
		if _, err := fmt.Sscan(readFile(d.home(agent, "code")), &r.code); err != nil {
			r.stderr += fmt.Sprintf("\nthe script has not ended (%v): %s", err, ran)
		}
		out <- r
	}()
	return out
}

// TestAQuestionReachesAPersonAndTheAnswerComesBack, whatever the agent's program is.
func TestAQuestionReachesAPersonAndTheAnswerComesBack(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.worker.tools]\nauto_approve = [\"read\", \"shell(go test *)\"]\nauto_deny = [\"shell(rm *)\"]\n"})
	d.up()
	d.worker("alice", "--role", "worker")
	d.worker("bob")
	require.Equal(t, "no open questions\n", d.must("approvals", "list"))

	// Rules decide at once.
	require.Equal(t, "approved by the rule shell(go test *)\n", d.sh("alice", "polisctl ask -- go test ./..."))
	r := d.exec("alice", "polisctl", "ask", "--", "echo; rm -rf x")
	require.Equal(t, 5, r.code, "%s", r)
	require.Contains(t, r.stderr, "it is denied: the rule shell(rm *) of the role denies it")

	// A person approves. The text of the agent is shown escaped.
	asked := d.asking("alice", `polisctl ask -- "$(printf 'git push\033[2K origin')"`)
	q := d.question("alice")
	require.Equal(t, `git push\x1b[2K origin`, q.What)
	require.Equal(t, api.ToolShell, q.Class)
	require.Equal(t, "worker", q.Role)
	list := d.must("approvals", "list")
	require.Contains(t, list, q.ID)
	require.Contains(t, list, `bash git push\x1b[2K origin`)
	show := d.must("approvals", "show", q.ID)
	require.Contains(t, show, `adds the rule bash(git push\x1b[2K origin)`)
	require.Contains(t, show, "asked by   polisctl (pid ")
	a, _ := d.agent("alice")
	require.Equal(t, api.WaitingApproval, a.Waiting.For)
	require.Equal(t, q.ID, a.Waiting.ID)
	require.Contains(t, d.must("agents", "list"), "waiting for approval")
	require.Equal(t, "alice\n", d.must("-q", "agents", "list", "--waiting"))
	require.Contains(t, d.must("approvals", "approve", q.ID), "approved "+q.ID)
	r = <-asked
	require.Zero(t, r.code, "%s", r)
	require.Equal(t, "approved\n", r.stdout)
	require.Empty(t, d.questions())
	e := d.refused(api.CodeAlreadyAnswered, "approvals", "deny", q.ID)
	require.Equal(t, "approve", e.Details["verdict"])
	d.refused(api.CodeNotFound, "approvals", "approve", "bob."+strings.TrimPrefix(q.ID, "alice."))
	d.refused(api.CodeNotFound, "approvals", "approve", "nobody.x")

	// A person denies, and the agent reads why.
	asked = d.asking("bob", "polisctl ask --json -- make deploy")
	q = d.question("bob")
	d.must("approvals", "deny", q.ID, "not", "on", "a", "Friday")
	r = <-asked
	require.Equal(t, 5, r.code)
	require.Contains(t, r.stderr, "not on a Friday")

	// A process that dies while it asks leaves no question.
	asked = d.asking("bob", "timeout 1 polisctl ask -- make deploy")
	gone := d.question("bob")
	<-asked
	d.eventually("the question is withdrawn", func() bool { return len(d.questions()) == 0 })
	d.refused(api.CodeNotFound, "approvals", "approve", gone.ID)

	// An answer for the role also applies to the role's other agents, until it is revoked.
	d.worker("carol", "--role", "worker")
	asked = d.asking("alice", "polisctl ask -- make")
	q = d.question("alice")
	d.must("approvals", "approve", q.ID, "--for", "role")
	require.Zero(t, (<-asked).code)
	d.eventually("the answer holds for carol", func() bool { return d.exec("carol", "polisctl", "ask", "--timeout", "1s", "--", "make").code == 0 })
	require.Contains(t, d.sh("alice", "polisctl ask -- make"), "approved by the rule bash(make)")
	require.Contains(t, d.must("approvals", "rules"), "bash(make)")
	events := d.must("events")
	require.Contains(t, events, "alice asks (")
	require.Contains(t, events, "was answered by root: approve (tool bash make)")
	d.stop()
	d.start()
	require.Contains(t, d.must("approvals", "rules"), "role worker")
	require.Contains(t, d.sh("carol", "polisctl ask -- make"), "approved by the rule bash(make)")
	d.must("approvals", "revoke", q.ID)
	require.Equal(t, "nothing is remembered\n", d.must("approvals", "rules"))
	d.eventually("it holds no more", func() bool { return d.exec("carol", "polisctl", "ask", "--timeout", "1s", "--", "make").code == 5 })
}

// TestQuestionsOutliveACrashOfPolisd: they are listed again, and an answer is kept if polisd dies
// while it processes it.
func TestQuestionsOutliveACrashOfPolisd(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	d.up()
	d.worker("alice")
	asked := d.asking("alice", "polisctl ask -- make")
	q := d.question("alice")
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(t, q.ID, d.question("alice").ID)

	d.dieAt("approval:answered", func() result { return d.ctl("approvals", "approve", q.ID, "--for", "agent") })
	r := <-asked
	require.Zero(t, r.code, "%s", r)
	d.eventually("the answer is remembered", func() bool { return strings.Contains(d.must("approvals", "rules"), q.ID) })
	e := d.refused(api.CodeAlreadyAnswered, "approvals", "deny", q.ID)
	require.Equal(t, "approve", e.Details["verdict"])
	require.Contains(t, d.sh("alice", "polisctl ask -- make"), "approved by the rule")
}

// TestAbortEndsTheTask; a message of the agent's program ends it, too.
func TestAbortEndsTheTask(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice")
	d.must("agents", "run", "alice", "polisctl ask -- make world || while :; do sleep 0.1; done")
	q := d.question("alice")
	require.Equal(t, "alice.1", q.Task)
	d.must("approvals", "abort", q.ID, "stop it")
	require.Equal(t, api.OutcomeCancelled, d.settled("alice").Outcome)
	d.eventually("its program has ended", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })

	post := func(path string, body any) string {
		b, err := json.Marshal(body)
		require.NoError(t, err)
		return fmt.Sprintf("curl -sS --unix-socket /run/polis/api.sock -d '%s' http://polis/v1/%s", b, path)
	}
	d.must("agents", "run", "alice", "touch $HOME/began; while :; do sleep 0.1; done")
	d.eventually("the task has begun", func() bool { _, err := os.Stat(d.home("alice", "began")); return err == nil })
	d.sh("alice", post("status_update", api.StatusUpdate{Type: "status_update", Message: "half of it"}))
	require.Contains(t, d.sh("alice", post("task_complete", api.TaskComplete{Type: "task_complete", Message: "all of it"})), `"alice.2"`)
	got := d.settled("alice")
	require.Equal(t, api.EndComplete, got.EndedBy)
	require.Equal(t, "all of it", got.Message)
	require.Contains(t, d.must("events"), "agent alice: half of it")
	require.Contains(t, d.sh("alice", post("permission_request", map[string]any{"type": "x", "tool": "bash"})), "BAD_REQUEST")
	require.Contains(t, d.sh("alice", post("permission_request", map[string]any{"tool": "bash", "agent": "bob"})), "unknown field")
}

// TestARuleAsksAtTheSystemCall, whichever program makes it, and does not delay other agents.
func TestARuleAsksAtTheSystemCall(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.worker]\nwrite = [\"**\"]\nask = [\"deploy/**\"]\n"})
	d.up()
	d.worker("alice", "--role", "worker")
	d.sh("alice", "mkdir deploy")

	asked := d.working("alice", "echo one > deploy/prod.txt && cat deploy/prod.txt")
	q := d.question("alice")
	require.Equal(t, api.ApprovalWrite, q.Kind)
	require.Equal(t, "deploy/prod.txt", q.What)
	require.Contains(t, q.Note, `rule: ask "deploy/**"`)
	require.Equal(t, "sh", q.Program)
	require.Contains(t, d.must("agents", "list", "--waiting"), "write deploy/prod.txt")
	d.sh("alice", "echo free > other.txt")
	d.must("approvals", "approve", q.ID)
	q = d.question("alice")
	require.Equal(t, api.ApprovalRead, q.Kind)
	require.Equal(t, "cat", q.Program)
	d.must("approvals", "approve", q.ID, "--for", "agent")
	r := <-asked
	require.Zero(t, r.code, "%s", r)
	require.Equal(t, "one\n", r.stdout)
	require.Equal(t, "one\n", d.sh("alice", "cat deploy/prod.txt"), "reading is remembered")

	asked = d.working("alice", "echo two > deploy/prod.txt; cat /run/polis/why")
	d.must("approvals", "deny", d.question("alice").ID, "not today")
	r = <-asked
	require.Contains(t, r.stderr, "Permission denied")
	require.Contains(t, r.stdout, "not today")
	require.Equal(t, "one\n", d.sh("alice", "cat deploy/prod.txt"))

	// The death of a waiting process leaves no question.
	asked = d.working("alice", "timeout -s KILL 1 sh -c 'echo three > deploy/prod.txt'")
	gone := d.question("alice")
	<-asked
	d.eventually("the question is withdrawn", func() bool { return len(d.questions()) == 0 })
	d.refused(api.CodeNotFound, "approvals", "approve", gone.ID)
	require.Equal(t, "one\n", d.sh("alice", "cat deploy/prod.txt"))
}

// TestAnAgentThatWaitsForALeaseIsShownAsWaiting.
func TestAnAgentThatWaitsForALeaseIsShownAsWaiting(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"60s\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.must("lock", "main.txt", "--agent", "bob")
	done := d.asking("alice", "echo x > main.txt")
	d.eventually("alice waits", func() bool {
		return strings.Contains(d.must("agents", "list", "--waiting"), "for a lock on main.txt; polisctl locks")
	})
	a, _ := d.agent("alice")
	require.Equal(t, api.WaitingLease, a.Waiting.For)
	require.Equal(t, "main.txt", a.Waiting.Path)
	d.must("unlock", "main.txt", "--agent", "bob")
	require.Zero(t, (<-done).code)
	require.Equal(t, "", d.must("-q", "agents", "list", "--waiting"))
}

// TestAPersonsOwnCallsOpenNoQuestion: a command of exec and a program on the host are refused at once, with the reason, where
// the agent's own program would wait for an answer. Such a refusal is none of the agent's task.
func TestAPersonsOwnCallsOpenNoQuestion(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.worker]\nwrite = [\"**\"]\nask = [\"deploy/**\"]\n"})
	d.up()
	d.worker("alice", "--role", "worker")
	host := d.path("ws", ".polis", "worktrees", "alice", "deploy", "prod.txt")
	asked := d.working("alice", "mkdir -p deploy; echo one > deploy/prod.txt; while ! test -e ~/go; do sleep 0.05; done; cat deploy/prod.txt; cat deploy/prod.txt")
	d.must("approvals", "approve", d.question("alice").ID)
	d.eventually("the file is there", func() bool { _, err := os.Stat(host); return err == nil })
	noQuestion := func() { t.Helper(); require.Empty(t, d.questions()) }

	r := d.exec("alice", "cat", "deploy/prod.txt")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "Permission denied")
	require.Contains(t, r.stderr, "polis: deploy/prod.txt needs an approval, which this command does not ask for: refused; polisctl agents why alice\n")
	noQuestion()
	r = d.exec("alice", "sh", "-c", "(echo two > deploy/prod.txt; cat deploy/prod.txt) 2>/dev/null; exit 0")
	require.Zero(t, r.code)
	require.Equal(t, "polis: deploy/prod.txt and 1 other call need approvals, which this command does not ask for: refused; polisctl agents why alice\n", r.stderr)
	require.Empty(t, d.exec("alice", "cat", "main.txt").stderr)
	why := d.must("agents", "why", "alice")
	require.Contains(t, why, "a command of polisctl agents exec or shell is refused at once")

	_, err := os.ReadFile(host)
	require.ErrorIs(t, err, syscall.EACCES)
	require.ErrorIs(t, os.WriteFile(host, []byte("three\n"), 0o644), syscall.EACCES)
	noQuestion()
	require.Contains(t, d.must("agents", "why", "alice"), "a program outside of the sandbox is refused at once")

	// The agent's own program waits for an answer meanwhile, and one that is remembered holds for all calls.
	d.sh("alice", "touch ~/go")
	q := d.question("alice")
	require.Equal(t, "cat", q.Program)
	d.must("approvals", "approve", q.ID, "--for", "agent")
	require.Equal(t, "one\none\n", (<-asked).stdout)
	require.Equal(t, "one\n", d.sh("alice", "cat deploy/prod.txt"))
	b, err := os.ReadFile(host)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(b))
	tk := d.settled("alice")
	for _, s := range tk.Steps {
		require.NotEqual(t, api.StepRefused, s.Kind, "%+v", s)
	}
}
