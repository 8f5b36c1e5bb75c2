package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	programhook "polis/daemon/rules/hook"
)

// TestTheHooksOfOtherProgramsAsk: as the hook of Claude Code, each in its program's own format.
func TestTheHooksOfOtherProgramsAsk(t *testing.T) {
	o := standIns(t, "codex", "gemini", "qwen", "copilot")
	o.config = "[roles.worker]\nwrite = [\"**\"]\ndeny = [\"*.pem\"]\n[roles.worker.tools]\nauto_approve = [\"read\", \"edit\"]\n"
	d := startDaemon(t, o)
	project := d.up()
	d.must("agents", "add", "bob", "--base", "custom")
	d.must("lock", "main.txt", "--agent", "bob")
	const deny, question = "deny", "make deploy"
	for name, c := range map[string]struct {
		event, edit, shell string // an event, and the program's tools
		denied             func(reply map[string]any) (reason any, denied bool)
	}{
		"codex":  {"PreToolUse", "", "exec_command", claudeDenial},
		"gemini": {"BeforeTool", "replace", "run_shell_command", func(v map[string]any) (any, bool) { return v["reason"], v["decision"] == deny }},
		"qwen":   {"PreToolUse", "edit", "run_shell_command", claudeDenial},
		"copilot": {"", "edit", "bash", func(v map[string]any) (any, bool) {
			return v["permissionDecisionReason"], v["permissionDecision"] == deny
		}},
	} {
		t.Log(name)
		p, ok := programhook.ByName(name)
		require.True(t, ok)
		d.must("agents", "add", name, "--base", name, "--role", "worker")
		d.must("agents", "add", name+"-plain", "--base", name)
		require.Equal(t, p.File, d.types()[name].Permissions.File, "what types names is there")
		text := d.sh(name, "cat "+p.File)
		require.Contains(t, text, "polisctl hook "+name+" ||")
		require.NotZero(t, d.exec(name, "sh", "-c", "echo > "+p.File).code)
		require.NotZero(t, d.exec(name, "rm", "-rf", filepath.Dir(p.File)).code)
		require.NotContains(t, d.exec(name+"-plain", "cat", p.File).stdout, "polisctl hook "+name, "without rules there is no hook that asks")
		for _, e := range p.Env {
			require.Contains(t, d.sh(name, "env"), e, "no file of the agent's takes its place")
		}
		command := "/run/polis/bin/polisctl hook " + name + " || { echo 'polis: this call could not be approved' >&2; exit 2; }"

		call := func(tool string, input map[string]any) string {
			v := map[string]any{"session_id": "s", "hook_event_name": c.event, "tool_name": tool, "tool_input": input, "cwd": project}
			if name == "copilot" {
				args, err := json.Marshal(input)
				require.NoError(t, err)
				v = map[string]any{"timestamp": 1, "toolName": tool, "toolArgs": string(args), "cwd": project}
			}
			b, err := json.Marshal(v)
			require.NoError(t, err)
			return "cat <<'EOT' | { " + command + "; }\n" + string(b) + "\nEOT\n"
		}
		read := func(out string) (reason string, denied bool) {
			var v map[string]any
			require.NoError(t, json.Unmarshal([]byte(out), &v))
			why, denied := c.denied(v)
			reason, _ = why.(string)
			return reason, denied
		}
		file := func(path string) (string, map[string]any) {
			if c.edit == "" {
				return "apply_patch", map[string]any{"command": "*** Begin Patch\n*** Add File: ok.txt\n+x\n*** Update File: " + path + "\n*** End Patch"}
			}
			return c.edit, map[string]any{map[bool]string{true: "path", false: "file_path"}[name == "copilot"]: path}
		}
		_, denied := read(d.sh(name, call(file("README.md"))))
		require.False(t, denied)
		why, denied := read(d.sh(name, call(file("key.pem"))))
		require.True(t, denied)
		require.Contains(t, why, "does not allow it to change key.pem")
		why, denied = read(d.sh(name, call(file("main.txt"))))
		require.True(t, denied)
		require.Contains(t, why, "main.txt is locked by bob since ")

		asked := d.asking(name, call(c.shell, map[string]any{"command": question}))
		q := d.question(name)
		require.Equal(t, question, q.What)
		require.Equal(t, api.ToolShell, q.Class)
		d.must("approvals", "deny", q.ID, "only on Mondays")
		r := <-asked
		require.Zero(t, r.code, "%s", r)
		why, denied = read(r.stdout)
		require.True(t, denied)
		require.Equal(t, "only on Mondays", why)

		for what, in := range map[string]string{"no JSON": "x", "no tool": "{}", "too much": strings.Repeat(" ", programhook.MaxInput+1)} {
			r := d.ctlInput(in, "agents", "exec", name, "--", "sh", "-c", command)
			require.Equal(t, 2, r.code, "%s: %s", what, r)
			require.Contains(t, r.stderr, "could not be approved", what)
		}
	}
}

func claudeDenial(v map[string]any) (reason any, denied bool) {
	out, _ := v["hookSpecificOutput"].(map[string]any)
	return out["permissionDecisionReason"], out["permissionDecision"] == "deny"
}

// TestModelsGetTheTextOfPolis: each program finds the text in the file that it reads, and the text
// follows the policy.
func TestModelsGetTheTextOfPolis(t *testing.T) {
	o := standIns(t, "claude", "codex")
	d := startDaemon(t, o)
	project := d.up()
	d.must("agents", "add", "alice", "--base", "claude", "--write", "src/**", "--read", "**")
	d.must("agents", "add", "carol", "--base", "codex")
	require.Equal(t, d.sh("alice", "cat /run/polis/AGENTS.md"), d.sh("alice", "cat /etc/claude-code/CLAUDE.md"))
	text := d.sh("alice", "cat /etc/claude-code/CLAUDE.md")
	require.Contains(t, text, "You are agent alice, in a sandbox of your own. "+project)
	require.Contains(t, text, "you may write `src/**`")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo > /etc/claude-code/CLAUDE.md").code)

	d.must("agents", "set", "alice", "--write", "docs/**")
	require.Contains(t, d.sh("alice", "cat /etc/claude-code/CLAUDE.md"), "you may write `src/**`, `docs/**`", "a change takes effect at once")

	// In the home of codex the file is a symlink, which codex reads when it starts.
	d.must("run", "--detach", "carol", "--", "work")
	d.settled("carol")
	require.Contains(t, d.sh("carol", "cat ~/.codex/AGENTS.md"), "You are agent carol")
	require.Empty(t, d.sh("carol", "git status --porcelain"), "nothing of it is in the repository")
}
