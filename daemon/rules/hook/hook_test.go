package hook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// calls are what each program gives to its hook, as its documentation and its real version have it.
var calls = map[string]string{
	"claude":  `{"session_id":"s","cwd":"/repo","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"a.go"},"tool_use_id":"t"}`,
	"codex":   `{"session_id":"s","turn_id":"t","cwd":"/repo","hook_event_name":"PreToolUse","model":"m","tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch"},"tool_use_id":"t"}`,
	"gemini":  `{"session_id":"s","cwd":"/repo","hook_event_name":"BeforeTool","timestamp":"x","tool_name":"replace","tool_input":{"file_path":"a.go"}}`,
	"qwen":    `{"session_id":"s","cwd":"/repo","hook_event_name":"PreToolUse","tool_name":"edit","tool_input":{"file_path":"a.go"},"permission_mode":"yolo"}`,
	"copilot": `{"sessionId":"s","timestamp":1,"cwd":"/repo","toolName":"edit","toolArgs":"{\"path\":\"a.go\"}"}`,
}

func TestProgramsGiveTheirCalls(t *testing.T) {
	for _, p := range Programs() {
		c, err := p.Parse([]byte(calls[p.Name]))
		require.NoError(t, err, p.Name)
		require.NotEmpty(t, c.Tool)
		require.Equal(t, p.events[0], c.Event)
		require.Equal(t, "/repo", c.Cwd)
		if p.Name != "codex" {
			require.Contains(t, []any{c.Input["file_path"], c.Input["path"]}, "/repo/a.go", p.Name)
		}
		for what, in := range map[string]string{"no JSON": "x", "nothing": "{}", "empty": "", "a list": "[]",
			"another event": `{"hook_event_name":"Stop","tool_name":"Bash"}`, "too much": `{"x":"` + strings.Repeat("x", MaxInput) + `"}`} {
			_, err := p.Parse([]byte(in))
			require.Error(t, err, "%s: %s", p.Name, what)
		}
		got, ok := ByFile(p.File)
		require.True(t, ok)
		require.Equal(t, p.Name, got.Name)
	}
	_, ok := ByName("vim")
	require.False(t, ok)
	c, err := mustProgram(t, "copilot").Parse([]byte(`{"cwd":"/r","toolName":"apply_patch","toolArgs":"*** Begin Patch\n"}`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"input": "*** Begin Patch\n"}, c.Input)
}

func mustProgram(t *testing.T, name string) Program {
	t.Helper()
	p, ok := ByName(name)
	require.True(t, ok)
	return p
}

func TestDecisionsInEachFormat(t *testing.T) {
	for _, c := range []struct {
		program, event string
		result         api.Verdict
		want           string
	}{
		{"claude", "PreToolUse", api.VerdictApprove, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"approved by polis"}}`},
		{"claude", "PreToolUse", api.VerdictDeny, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"why"}}`},
		{"claude", "PermissionRequest", api.VerdictAbort, `{"continue":false,"hookSpecificOutput":{"decision":{"behavior":"deny","interrupt":true,"message":"why"},"hookEventName":"PermissionRequest"},"stopReason":"why"}`},
		{"codex", "PreToolUse", api.VerdictApprove, `{}`},
		{"codex", "PreToolUse", api.VerdictDeny, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"why"}}`},
		{"codex", "PreToolUse", api.VerdictAbort, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"why (the task is over: stop)"}}`},
		{"codex", "PermissionRequest", api.VerdictDeny, `{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"why"},"hookEventName":"PermissionRequest"}}`},
		{"codex", "PermissionRequest", api.VerdictApprove, `{"hookSpecificOutput":{"decision":{"behavior":"allow"},"hookEventName":"PermissionRequest"}}`},
		{"gemini", "BeforeTool", api.VerdictApprove, `{"decision":"allow"}`},
		{"gemini", "BeforeTool", api.VerdictDeny, `{"decision":"deny","reason":"why"}`},
		{"gemini", "BeforeTool", api.VerdictAbort, `{"continue":false,"decision":"deny","reason":"why","stopReason":"why"}`},
		{"qwen", "PreToolUse", api.VerdictDeny, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"why"}}`},
		{"copilot", "preToolUse", api.VerdictApprove, `{"permissionDecision":"allow"}`},
		{"copilot", "preToolUse", api.VerdictDeny, `{"permissionDecision":"deny","permissionDecisionReason":"why"}`},
	} {
		b, err := mustProgram(t, c.program).Answer(Call{Event: c.event}, api.PermissionResponse{Result: c.result, Reason: "why"})
		require.NoError(t, err)
		require.Equal(t, c.want, string(b), "%s %s %s", c.program, c.event, c.result)
	}
}

func TestTheHostsOwnConfigurationStays(t *testing.T) {
	for name, host := range map[string]string{
		"gemini": `{"tools":{"x":1},"hooksConfig":{"disabled":["site"]},"hooks":{"AfterTool":[{"matcher":"a"}],"BeforeTool":[{"matcher":"site"}]}}`,
		"qwen":   `{"disableAllHooks":true,"tools":{"x":1},"hooks":{"PreToolUse":[{"matcher":"site"}]}}`,
	} {
		b, err := mustProgram(t, name).Config("RUN", []byte(host))
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(b, &got))
		require.Contains(t, got, "tools", name)
		require.Contains(t, string(b), `"site"`)
		require.Contains(t, string(b), `"command": "RUN"`)
		require.NotContains(t, string(b), `"disableAllHooks": true`)
		_, err = mustProgram(t, name).Config("RUN", []byte("not JSON"))
		require.Error(t, err, "what cannot be merged is an error")
	}
	b, err := mustProgram(t, "codex").Config("RUN", []byte("allowed_sandbox_modes = [\"read-only\"]\n[features]\nx = true\nhooks = false\n[[hooks.PreToolUse]]\nmatcher = \"site\"\n"))
	require.NoError(t, err)
	var got struct {
		AllowedSandboxModes []string `toml:"allowed_sandbox_modes"`
		Features            map[string]bool
		Hooks               struct {
			ManagedDir        string `toml:"managed_dir"`
			PreToolUse        []struct{ Matcher string }
			PermissionRequest []struct {
				Hooks []struct{ Type, Command string }
			}
		}
	}
	_, err = toml.Decode(string(b), &got)
	require.NoError(t, err, "%s", b)
	require.Equal(t, []string{"read-only"}, got.AllowedSandboxModes)
	require.Equal(t, map[string]bool{"x": true, "hooks": true}, got.Features)
	require.Len(t, got.Hooks.PreToolUse, 2)
	require.Equal(t, "site", got.Hooks.PreToolUse[0].Matcher)
	require.Equal(t, "RUN", got.Hooks.PermissionRequest[0].Hooks[0].Command)
	_, err = mustProgram(t, "codex").Config("RUN", []byte("= x"))
	require.Error(t, err)
}

// TestTheHookForWhatIsSaidStaysBesideTheOthers: those of the host, and that which asks before a tool, whose file
// can be the same one. Nothing is turned on that a person has turned off.
func TestTheHookForWhatIsSaidStaysBesideTheOthers(t *testing.T) {
	var names []string
	for _, p := range Programs() {
		if p.SaidFile() == "" {
			_, err := p.SaidConfig("SAID", nil)
			require.Error(t, err, p.Name)
			continue
		}
		names = append(names, p.Name)
		alone, err := p.SaidConfig("SAID", nil)
		require.NoError(t, err)
		require.Contains(t, string(alone), `"SAID"`)
		require.NotContains(t, strings.ToLower(string(alone)), "disable")
		require.NotContains(t, string(alone), "features")
		if p.SaidFile() != p.File {
			continue
		}
		before, err := p.Config("ASK", nil)
		require.NoError(t, err)
		both, err := p.SaidConfig("SAID", before)
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(string(both), `"ASK"`))
		require.Equal(t, 1, strings.Count(string(both), `"SAID"`))
		_, err = p.SaidConfig("SAID", []byte("= {"))
		require.Error(t, err, "what cannot be merged is an error")
	}
	require.Equal(t, []string{"claude", "codex", "qwen"}, names)

	b, err := mustProgram(t, "qwen").SaidConfig("SAID", []byte(`{"disableAllHooks":true,"hooks":{"PostToolUse":[{"matcher":"site"}]}}`))
	require.NoError(t, err)
	require.Contains(t, string(b), `"disableAllHooks": true`)
	require.Contains(t, string(b), `"site"`)
	b, err = mustProgram(t, "codex").SaidConfig("SAID", []byte("[features]\nhooks = false\n[hooks]\nmanaged_dir = \"/opt/site\"\n[[hooks.PostToolUse]]\nmatcher = \"site\"\n"))
	require.NoError(t, err)
	require.Contains(t, string(b), "hooks = false")
	require.Contains(t, string(b), `managed_dir = "/opt/site"`)
	require.Contains(t, string(b), `"site"`)
}

// A program's input is the agent's: nothing in it makes the hook fail otherwise than with an error.
func FuzzParse(f *testing.F) {
	for _, c := range calls {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range Programs() {
			c, err := p.Parse(b)
			require.Equal(t, err == nil, err == nil && c.Tool != "" && c.Event != "")
		}
	})
}

// TestPathsInPatchesAreAbsolute: a patch is about the files of the directory that the program is in.
func TestPathsInPatchesAreAbsolute(t *testing.T) {
	c, err := mustProgram(t, "codex").Parse([]byte(`{"hook_event_name":"PreToolUse","tool_name":"apply_patch","cwd":"/repo/sub","tool_input":{"command":["apply_patch","*** Begin Patch\n*** Update File: a.txt\n*** Move to: /repo/b\n@@\n-*** x\n*** Add File: ../c\n+1\n*** End Patch"]}}`))
	require.NoError(t, err)
	require.Equal(t, []any{"apply_patch", "*** Begin Patch\n*** Update File: /repo/sub/a.txt\n*** Move to: /repo/b\n@@\n-*** x\n*** Add File: /repo/c\n+1\n*** End Patch"}, c.Input["command"])
}

// TestTheEndOfACallThatFailedIsRead, and null in a file of the host is nothing.
func TestTheEndOfACallThatFailedIsRead(t *testing.T) {
	p := mustProgram(t, "claude")
	b, err := p.SaidConfig("SAID", nil)
	require.NoError(t, err)
	require.Contains(t, string(b), "PostToolUseFailure")
	c, err := p.Ended([]byte(`{"hook_event_name":"PostToolUseFailure","tool_name":"Edit","tool_input":{"file_path":"a"},"cwd":"/r"}`))
	require.NoError(t, err)
	require.True(t, c.Failed())
	require.Equal(t, "/r/a", c.Input["file_path"])
	_, err = mustProgram(t, "qwen").SaidConfig("SAID", []byte("null"))
	require.NoError(t, err)
}
