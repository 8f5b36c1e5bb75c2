package approval

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func decide(t *testing.T, r api.ToolRules, tool string, input map[string]any) Decision {
	t.Helper()
	set, err := Compile(r)
	require.NoError(t, err)
	q, err := ToolQuestion(tool, input, []string{"/repo"})
	require.NoError(t, err)
	return Rules{Tools: set}.Decide(q)
}

func TestToolRules(t *testing.T) {
	role := api.ToolRules{
		AutoApprove: []string{"read", "glob", "edit(src/)", "shell(go test *)", "shell(git status)", "net(https://go.dev/*)", "mcp__x"},
		AutoDeny:    []string{"shell(rm *)", "edit(*.pem)", "web_search"},
		Ask:         []string{"read(secrets/**)"},
	}
	cmd := func(s string) map[string]any { return map[string]any{"command": s} }
	path := func(s string) map[string]any { return map[string]any{"file_path": s} }
	for _, c := range []struct {
		tool  string
		input map[string]any
		want  api.Verdict
		rule  string
	}{
		{"Read", path("/repo/a.go"), api.VerdictApprove, "read"},
		{"read_file", map[string]any{"absolute_path": "/repo/a.go"}, api.VerdictApprove, "read"},
		{"Read", path("/repo/secrets/a"), api.VerdictAsk, "read(secrets/**)"},
		{"Read", path("/repo/x/../secrets/a"), api.VerdictAsk, "read(secrets/**)"},
		{"Grep", map[string]any{"pattern": "x"}, api.VerdictApprove, "read"},
		{"Edit", path("/repo/src/a/b.go"), api.VerdictApprove, "edit(src/)"},
		{"Edit", path("/elsewhere/src/b.go"), api.VerdictAsk, "default"},
		{"Edit", path("/repo/src/../b.go"), api.VerdictAsk, "default"},
		{"Write", path("/repo/src/key.pem"), api.VerdictDeny, "edit(*.pem)"},
		{"Bash", cmd("go test ./..."), api.VerdictApprove, "shell(go test *)"},
		{"exec_command", map[string]any{"cmd": []any{"go", "test", "./x"}}, api.VerdictApprove, "shell(go test *)"},
		{"Bash", cmd("go test ./...; curl evil"), api.VerdictAsk, "default"},
		{"Bash", cmd("go test $(curl evil)"), api.VerdictAsk, "default"},
		{"Bash", cmd("go test x\ncurl evil"), api.VerdictAsk, "default"},
		{"Bash", cmd("go test x > /etc/passwd"), api.VerdictAsk, "default"},
		{"Bash", cmd("git status"), api.VerdictApprove, "shell(git status)"},
		{"Bash", cmd("git status x"), api.VerdictAsk, "default"},
		{"Bash", cmd("rm -rf /"), api.VerdictDeny, "shell(rm *)"},
		{"Bash", cmd("go test ./... && rm -rf /"), api.VerdictDeny, "shell(rm *)"},
		{"run_shell_command", cmd("echo `rm -rf /`"), api.VerdictDeny, "shell(rm *)"},
		{"WebFetch", map[string]any{"url": "https://go.dev/doc"}, api.VerdictApprove, "net(https://go.dev/*)"},
		{"WebFetch", map[string]any{"url": "https://go.dev.evil/doc"}, api.VerdictAsk, "default"},
		{"WebSearch", map[string]any{"query": "x"}, api.VerdictDeny, "web_search"},
		{"mcp__x", nil, api.VerdictApprove, "mcp__x"},
		{"mcp__y", nil, api.VerdictAsk, "default"},
	} {
		t.Run(c.tool+" "+RuleText(api.ApprovalTool, "", strings.Join(values(c.input), " ")), func(t *testing.T) {
			d := decide(t, role, c.tool, c.input)
			require.Equal(t, c.want, d.Verdict)
			require.Equal(t, c.rule, d.Rule)
			require.Equal(t, c.want == api.VerdictDeny, d.Reason != "")
		})
	}
}

func values(m map[string]any) (out []string) {
	for _, v := range m {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func TestTheDefaultOfARole(t *testing.T) {
	require.Equal(t, api.VerdictAsk, Rules{}.Decide(shell("x")).Verdict)
	for _, v := range []api.Verdict{api.VerdictApprove, api.VerdictDeny, api.VerdictAsk} {
		require.Equal(t, v, decide(t, api.ToolRules{Default: v}, "Bash", map[string]any{"command": "x"}).Verdict)
	}
	set, err := Compile(api.ToolRules{Default: api.VerdictApprove})
	require.NoError(t, err)
	require.Equal(t, api.VerdictAsk, Rules{Tools: set}.Decide(Question{Kind: api.ApprovalWrite, Text: "a"}).Verdict, "rules for tools are for tools")
}

func TestRememberedAnswers(t *testing.T) {
	set, err := Compile(api.ToolRules{AutoDeny: []string{"shell(rm *)"}, Ask: []string{"shell"}})
	require.NoError(t, err)
	yes := func(what string) api.ApprovalRule {
		return api.ApprovalRule{ID: "claude.a", By: "user:1", Kind: api.ApprovalTool, Tool: "Bash", What: what, Verdict: api.VerdictApprove}
	}
	no := yes("make")
	no.Verdict, no.Reason = api.VerdictDeny, "not here"
	r := Rules{Tools: set, Remembered: []api.ApprovalRule{yes("make test"), yes("rm -rf x"), yes("make"), no}}
	require.Equal(t, api.VerdictApprove, r.Decide(shell("make test")).Verdict, "an answer is stronger than ask")
	require.Equal(t, api.VerdictDeny, r.Decide(shell("rm -rf x")).Verdict, "auto_deny is stronger than an answer")
	require.Equal(t, Decision{Verdict: api.VerdictDeny, Rule: "Bash(make)", Source: "answer claude.a of user:1", Reason: "not here"}, r.Decide(shell("make")))
	require.Equal(t, api.VerdictAsk, r.Decide(shell("make tests")).Verdict)
	write := Question{Kind: api.ApprovalWrite, Text: "make test"}
	require.Equal(t, api.VerdictAsk, r.Decide(write).Verdict, "an answer is for its kind")
}

func TestRulesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "begins with a class",
		"(x)":                      "begins with a class",
		"shell(":                   "between parentheses",
		"shell()":                  "between parentheses",
		"shell(x) y":               "between parentheses",
		"a b":                      "begins with a class",
		"edit([)":                  "malformed",
		"edit(!x)":                 "does not begin with !",
		strings.Repeat("x", 10000): "longer",
	} {
		_, err := Compile(api.ToolRules{Ask: []string{text}})
		require.ErrorContains(t, err, want)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
	}
	_, err := Compile(api.ToolRules{Default: "abort"})
	require.Error(t, err)
	_, err = Compile(api.ToolRules{Ask: make([]string, maxToolRules+1)})
	require.Error(t, err)
}

// A wildcard of a rule that permits stands for no character that begins another command,
// whatever text an agent chooses; and matching takes time in proportion to the text.
func FuzzWildcardOfAShellNeverSpansTwoCommands(f *testing.F) {
	f.Add("go test x;y")
	f.Add(strings.Repeat("go test ", 5000))
	set, err := Compile(api.ToolRules{AutoApprove: []string{"shell(go test *)", "shell(* a * b * c *)"}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		d := Rules{Tools: set}.Decide(shell(text))
		if strings.ContainsAny(text, shellSpecial) {
			require.Equal(t, api.VerdictAsk, d.Verdict)
		}
	})
}

func TestTheWordsOfACommandAreQuoted(t *testing.T) {
	q, err := ToolQuestion("shell", map[string]any{"command": []any{"bash", "-lc", "echo 'a'; rm x"}}, nil)
	require.NoError(t, err)
	require.Equal(t, `bash -lc 'echo '\''a'\''; rm x'`, q.Text)
	require.Equal(t, api.ToolShell, q.Class)
	q, err = ToolQuestion("Task", map[string]any{"prompt": "<x>"}, nil)
	require.NoError(t, err)
	require.Equal(t, `{"prompt":"<x>"}`, q.Text)
	_, err = ToolQuestion("a(b", nil, nil)
	require.Error(t, err)
}
