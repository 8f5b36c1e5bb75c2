package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAnACPAgentIsDriven: polis prompts the agent with the task, shows its updates as steps, and
// answers its requests.
func TestAnACPAgentIsDriven(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "acpagent"), "./acpagent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	d := startDaemon(t, options{config: "[roles.worker.tools]\nauto_approve = [\"edit(src/)\", \"shell(git *)\"]\nauto_deny = [\"shell(rm *)\"]\n"})
	d.up()
	require.NoError(t, os.MkdirAll(d.path("agents.d"), 0o755))
	d.write("agents.d/speaks.toml", fmt.Sprintf(`description = "a small ACP agent"
program = "/opt/polis-e2e/acpagent"
acp = ["/opt/polis-e2e/acpagent"]
mounts = [{ source = %q, dest = "/opt/polis-e2e", read_only = true }]
[permissions]
kind = "acp"
command = ["/opt/polis-e2e/acpagent"]
`, dir))
	d.must("agents", "add", "alice", "--base", "speaks", "--role", "worker")
	shown := func(id string) string {
		d.t.Helper()
		return d.must("tasks", "show", id) + d.must("tasks", "show", "-o", id)
	}

	// Rules or a person decide, and the updates are the steps of the task.
	d.sh("alice", "mkdir -p src; git config user.name a; git config user.email a@b.example")
	d.must("run", "--detach", "alice", "say hello\nedit src/a.txt one\nrun rm -rf /\nrun make deploy\nedit docs.txt two\nask\nfiles\nrun git add -A\nrun git commit -qm work\nsay all is done")
	q := d.question("alice")
	require.Equal(t, "make deploy", q.What)
	require.Equal(t, api.ToolShell, q.Class)
	require.Equal(t, "alice.1", q.Task)
	d.must("approvals", "deny", q.ID, "not today")
	q = d.question("alice")
	require.Equal(t, api.ToolEdit, q.Class)
	require.Equal(t, "docs.txt", q.What)
	d.must("approvals", "approve", q.ID)
	d.must("approvals", "deny", d.question("alice").ID)
	got := d.settled("alice")
	text := shown("alice.1")
	require.Equal(t, api.OutcomeMerged, got.Outcome, "%s", text)
	for _, want := range []string{"hello", "edit     src/a.txt", "command  rm -rf /", "auto_deny of the role denied ", "not permitted: make deploy", "make deploy: not today",
		"edit     docs.txt", "strange was cancelled: true", "the client refuses files: true", "the client reads files: false", "command  git commit -qm work", "all is done"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, "two\n", readFile(d.path("src", "docs.txt")))

	// A task whose agent stops with an error, and a task that a person ends.
	d.must("run", "--detach", "alice", "refuse")
	got = d.settled("alice")
	require.Equal(t, api.OutcomeFailed, got.Outcome)
	require.Contains(t, shown("alice.2"), "the turn ended by refusal")
	d.must("run", "--detach", "alice", "run make world\nwait")
	d.must("approvals", "abort", d.question("alice").ID, "stop it")
	require.Equal(t, api.OutcomeCancelled, d.settled("alice").Outcome)
	d.eventually("its program has ended", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })

	// Requests that polis does not support are refused, and a program that does not speak ACP ends
	// the task.
	require.Equal(t, "leave --continue out", d.refused(api.CodeBadState, "run", "--detach", "--continue", "alice", "say x").Hint)
	d.must("run", "--detach", "--model", "large", "alice", "say x")
	d.settled("alice")
	require.Contains(t, shown("alice.4"), "the model is large")
	d.must("run", "--detach", "--model", "none", "alice", "say x")
	require.Equal(t, api.OutcomeFailed, d.settled("alice").Outcome)
	require.Contains(t, shown("alice.5"), "session/set_model: ")
	// What a person says during the turn is the next prompt of the session.
	d.must("run", "--detach", "alice", "run make deploy")
	q = d.question("alice")
	require.Regexp(t, `^agent alice gets it when its present turn ends, in the same session; if there is no other turn, it is alice\.\d+, a task of its own\n$`, d.must("say", "alice", "say heard you"))
	d.must("approvals", "deny", q.ID, "not today")
	d.eventually("its program has ended", func() bool { return d.taskRecord("alice.6").State == api.TaskEnded })
	require.Contains(t, shown("alice.6"), "heard you")
	require.Equal(t, "delivered to alice.6", d.taskRecord("alice.7").Result)
	r := d.exec("alice", "polisctl", "acp", "--prompt", "x", "--", "echo", "this is no ACP")
	require.Equal(t, 1, r.code, "%s", r)
	require.Contains(t, r.stdout, "initialize: ")
	require.Equal(t, 127, d.exec("alice", "polisctl", "acp", "--prompt", "x", "--", "/nonexistent").code)
}
