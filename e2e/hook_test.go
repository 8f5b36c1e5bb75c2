package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// claudeAnswer is what a hook of Claude Code prints.
type claudeAnswer struct {
	Continue *bool `json:"continue"`
	Output   struct {
		HookEventName            string
		PermissionDecision       string
		PermissionDecisionReason string
		Decision                 struct {
			Behavior  string
			Message   string
			Interrupt bool
		}
	} `json:"hookSpecificOutput"`
}

// TestTheHookOfClaudeAsks: the hook is in managed configuration that the agent cannot change. It
// blocks calls that it cannot decide, and its reason for a denial is one that a model can act on.
func TestTheHookOfClaudeAsks(t *testing.T) {
	o := standIns(t, "claude")
	o.config = "[roles.worker]\nwrite = [\"**\"]\ndeny = [\"*.pem\"]\n[roles.worker.tools]\nauto_approve = [\"read\", \"edit\"]\n"
	d := startDaemon(t, o)
	project := d.up()
	d.must("agents", "add", "alice", "--base", "claude", "--role", "worker")
	d.must("agents", "add", "plain", "--base", "claude")
	d.must("agents", "add", "bob", "--base", "custom")

	// The configuration of the program names the hook; without rules there is none.
	text := d.sh("alice", "cat /etc/claude-code/managed-settings.d/polis.json")
	var settings struct {
		Hooks map[string][]struct {
			Matcher string
			Hooks   []struct {
				Type, Command string
				Timeout       int
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &settings))
	command := settings.Hooks["PreToolUse"][0].Hooks[0].Command
	require.Contains(t, command, "polisctl hook claude ||")
	require.Greater(t, settings.Hooks["PreToolUse"][0].Hooks[0].Timeout, 3600)
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo > /etc/claude-code/managed-settings.d/polis.json").code)
	require.NotZero(t, d.exec("alice", "rm", "/etc/claude-code/managed-settings.d/polis.json").code)
	require.NotZero(t, d.exec("plain", "test", "-e", "/etc/claude-code/managed-settings.d/polis.json").code)
	require.Zero(t, d.exec("alice", "test", "-r", "/etc/passwd").code)

	// hook runs the hook as Claude Code does.
	hook := func(event, tool string, input map[string]any) (string, string) {
		b, err := json.Marshal(map[string]any{"session_id": "s", "hook_event_name": event, "tool_name": tool, "tool_input": input, "tool_use_id": "t", "cwd": project})
		require.NoError(t, err)
		return "cat <<'EOT' | { " + command + "; }\n" + string(b) + "\nEOT\n", string(b)
	}
	decide := func(event, tool string, input map[string]any) claudeAnswer {
		script, _ := hook(event, tool, input)
		var a claudeAnswer
		require.NoError(t, json.Unmarshal([]byte(d.sh("alice", script)), &a))
		require.Equal(t, event, a.Output.HookEventName)
		return a
	}
	file := func(p string) map[string]any { return map[string]any{"file_path": p} }
	require.Equal(t, "allow", decide("PreToolUse", "Read", file(filepath.Join(project, "main.txt"))).Output.PermissionDecision)
	require.Equal(t, "allow", decide("PermissionRequest", "Edit", file("main.txt")).Output.Decision.Behavior)

	// A refusal of the view is reported before the call, in words.
	got := decide("PreToolUse", "Write", file("key.pem"))
	require.Equal(t, "deny", got.Output.PermissionDecision)
	require.Contains(t, got.Output.PermissionDecisionReason, "does not allow it to change key.pem")
	d.must("lock", "main.txt", "--agent", "bob")
	got = decide("PreToolUse", "Edit", file("main.txt"))
	require.Equal(t, "deny", got.Output.PermissionDecision)
	require.Contains(t, got.Output.PermissionDecisionReason, "main.txt is locked by bob since ")

	// A person decides.
	script, _ := hook("PreToolUse", "Bash", map[string]any{"command": "make deploy", "description": "x"})
	asked := d.asking("alice", script)
	q := d.question("alice")
	require.Equal(t, "make deploy", q.What)
	d.must("approvals", "deny", q.ID, "only on Mondays")
	r := <-asked
	require.Zero(t, r.code, "%s", r)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.Equal(t, "only on Mondays", got.Output.PermissionDecisionReason)
	script, _ = hook("PermissionRequest", "Bash", map[string]any{"command": "make deploy"})
	asked = d.asking("alice", script)
	d.must("approvals", "abort", d.question("alice").ID)
	r = <-asked
	var stopped claudeAnswer
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &stopped))
	require.True(t, stopped.Output.Decision.Interrupt)
	require.False(t, *stopped.Continue)

	// Every failure stops the tool. Only exit status 2 does that.
	for what, in := range map[string]string{"no JSON": "x", "no tool": "{}", "another event": `{"hook_event_name":"Stop","tool_name":"Bash"}`,
		"too much": `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"` + strings.Repeat("x", 1<<20) + `"}}`} {
		r := d.ctlInput(in, "agents", "exec", "alice", "--", "sh", "-c", command)
		require.Equal(t, 2, r.code, "%s: %s", what, r)
		require.Contains(t, r.stderr, "could not be approved", what)
	}
	require.Equal(t, 2, d.exec("alice", "sh", "-c", strings.ReplaceAll(command, "polisctl", "nothing")).code)
	require.Empty(t, d.questions())
	a, _ := d.agent("alice")
	require.Equal(t, api.StatusIdle, a.Status)
}
