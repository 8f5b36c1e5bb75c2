package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// seedRoles are the worker roles of seed 003.
const seedRoles = `[roles.complex-feature]
model = "opus"
models = { codex = "gpt-5.5" }
deny = ["*.pem"]
[roles.complex-feature.tools]
auto_approve = ["read_file", "glob", "grep"]
[roles.simple-fix]
model = "sonnet"
[roles.simple-fix.tools]
auto_approve = ["read_file", "glob", "grep", "bash"]
`

// TestRolesGiveModelsAndSayWhatTheyDecide, with the worker roles of seed 003.
func TestRolesGiveModelsAndSayWhatTheyDecide(t *testing.T) {
	o := standIns(t, "claude", "codex")
	o.config = seedRoles
	d := startDaemon(t, o)
	d.up()
	for name, base := range map[string]string{"alice": "claude", "carol": "codex"} {
		d.must("agents", "add", name, "--base", base, "--role", "complex-feature")
	}
	d.must("agents", "add", "dave", "--base", "claude", "--role", "simple-fix")
	r := d.ctl("agents", "add", "eve", "--base", "custom", "--role", "simple-fix", "--", "sh")
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout+r.stderr, "$POLIS_MODEL only")

	// The programs get the model, as their types say.
	ran := func(agent string, args ...string) (words []string, task api.Task) {
		require.NoError(t, json.Unmarshal([]byte(d.must(append([]string{"--json", "run", "--detach", agent}, args...)...)), &task))
		d.settled(agent)
		return strings.Split(strings.ReplaceAll(d.must("tasks", "show", "--output", "--raw", task.ID), "\r", ""), "\n"), task
	}
	words, task := ran("alice", "do it")
	require.Subset(t, words, []string{"arg=--model", "arg=opus", "ANTHROPIC_MODEL=opus", "POLIS_MODEL=opus"})
	require.Equal(t, "opus", task.Model)
	words, _ = ran("alice", "do it", "--model", "haiku")
	require.Contains(t, words, "arg=haiku", "a task's own model is stronger")
	require.NotContains(t, words, "arg=opus")
	words, _ = ran("carol", "do it")
	require.Subset(t, words, []string{"arg=--model", "arg=gpt-5.5", "POLIS_MODEL=gpt-5.5"})
	require.Contains(t, d.sh("eve", "echo $POLIS_MODEL"), "sonnet")

	// roles check predicts the real decision.
	require.Contains(t, d.must("roles", "list"), "complex-feature   opus")
	require.Contains(t, d.must("roles", "show", "simple-fix"), "tools allowed bash")
	decide := func(args ...string) (v api.RoleDecision) {
		r := d.ctl(append([]string{"--json", "roles", "check"}, args...)...)
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &v), "%s", r)
		require.Equal(t, v.Verdict == api.VerdictDeny, r.code == 5, "%s", r)
		return v
	}
	require.Equal(t, api.VerdictApprove, decide("complex-feature", "Read", "main.txt", "--agent", "alice").Verdict)
	require.Equal(t, api.VerdictAsk, decide("complex-feature", "Bash", "make").Verdict)
	require.Equal(t, api.VerdictApprove, decide("simple-fix", "exec_command", "make").Verdict)
	require.Equal(t, "policy", decide("complex-feature", "write_file", "key.pem").By)
	require.Equal(t, `deny "*.pem"`, decide("complex-feature", "--read", "a/key.pem").Rule)
	require.Equal(t, "approved by the rule bash\n", d.sh("dave", "polisctl ask -- make"))
	asked := d.asking("alice", "polisctl ask --tool Bash -- make")
	q := d.question("alice")
	d.must("approvals", "approve", q.ID, "--for", "role")
	require.Zero(t, (<-asked).code)
	v := decide("complex-feature", "Bash", "make")
	require.Equal(t, []string{"approve", q.ID, "Bash(make)"}, []string{string(v.Verdict), v.Answer, v.Rule})
	require.Empty(t, d.questions())
}
