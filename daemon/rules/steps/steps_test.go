package steps

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

const made = "echo hello > made.txt && git add -A && git commit -qm work && echo done"

// read has a stream read the text in pieces of at most n bytes.
func read(s *Stream, text string, n int) string {
	var b strings.Builder
	for len(text) > 0 {
		k := min(n, len(text))
		for _, st := range s.Write([]byte(text[:k])) {
			b.WriteString(Render(st))
		}
		text = text[k:]
	}
	for _, st := range s.End() {
		b.WriteString(Render(st))
	}
	return b.String()
}

// TestStreamsOfProgramsAreRead: what the real programs printed when a stand-in for their
// model had them run one command (gemini-denied: after its documentation).
func TestStreamsOfProgramsAreRead(t *testing.T) {
	denied := func(why string) string {
		return "* command  " + made + "\n* refused  by its own rules: " + made + why + "\nIt is done.\n"
	}
	ok := "* command  " + made + "\nIt is done.\n"
	for file, want := range map[string]struct {
		format, shown string
		report        api.TaskReport
	}{
		"claude-ok": {"claude", ok, api.TaskReport{InputTokens: 20, OutputTokens: 20, CostUSD: 0.0006}},
		"claude-denied": {"claude", denied(" (This Bash command contains multiple operations. The following parts require approval: echo hello, git add -A, git commit -qm work)"),
			api.TaskReport{OwnRefusals: 1, OwnRefused: []string{made}, InputTokens: 20, OutputTokens: 20, CostUSD: 0.0006}},
		"claude-rule": {"claude", denied(" (Permission to use Bash with command " + made + " has been denied.)"),
			api.TaskReport{OwnRefusals: 1, OwnRefused: []string{made}, InputTokens: 20, OutputTokens: 20, CostUSD: 0.0006}},
		"qwen-ok": {"claude", ok, api.TaskReport{InputTokens: 20, OutputTokens: 20}},
		"codex-ok": {"codex", "* failed   Model metadata for `stand-in` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.\n" + ok,
			api.TaskReport{InputTokens: 20, OutputTokens: 20}},
		"opencode-ok": {"opencode", ok, api.TaskReport{InputTokens: 20, OutputTokens: 20}},
		"opencode-denied": {"opencode", "* command  " + made + "\n* refused  by its own rules: " + made + " (The user rejected permission to use this specific tool call.)\n",
			api.TaskReport{OwnRefusals: 1, OwnRefused: []string{made}, InputTokens: 10, OutputTokens: 10}},
		"copilot-ok": {"copilot", ok, api.TaskReport{}},
		"copilot-denied": {"copilot", denied(" (Permission denied because no interactive user response was available. Retry in an interactive session so the user can approve it, or try an alternative that does not require this permission.)"),
			api.TaskReport{OwnRefusals: 1, OwnRefused: []string{made}}},
		"pi-ok":    {"pi", ok, api.TaskReport{InputTokens: 20, OutputTokens: 20}},
		"cline-ok": {"cline", ok, api.TaskReport{InputTokens: 20, OutputTokens: 20}},
		"cline-denied": {"cline", denied(" (Tool approval requires an interactive session.)"),
			api.TaskReport{OwnRefusals: 1, OwnRefused: []string{made}, InputTokens: 20, OutputTokens: 20}},
		"gemini-ok": {"gemini", ok, api.TaskReport{InputTokens: 30, OutputTokens: 30}},
		"gemini-denied": {"gemini", "I make the file.\n* read     main.go\n* command  echo hello > made.txt\n* refused  by its own rules: echo hello > made.txt (Tool execution denied by policy.)\n" +
			"* edit     main.go\n* failed   edit main.go: Failed to edit, could not find the string to replace.\nIt is done.\n",
			api.TaskReport{OwnRefusals: 1, OwnRefused: []string{"echo hello > made.txt"}, InputTokens: 20, OutputTokens: 20}},
	} {
		t.Run(file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", file+".jsonl"))
			require.NoError(t, err)
			for _, n := range []int{1, 7, 1 << 20} {
				s := New(want.format)
				s.Root = "/project"
				require.Equal(t, want.shown, read(s, string(b), n))
				got := s.Report()
				if strings.HasSuffix(want.shown, "It is done.\n") {
					want.report.Answer = "It is done."
				}
				require.NotNil(t, got)
				require.InDelta(t, want.report.CostUSD, got.CostUSD, 1e-9)
				got.CostUSD = want.report.CostUSD
				require.Equal(t, want.report, *got)
			}
		})
	}
}

func TestLinesThatAreNotUnderstoodPassAsText(t *testing.T) {
	for _, format := range Formats() {
		s := New(format)
		got := read(s, "Loading...\n\n{\"no\": \"type\"}\n{broken\n[1]\nnull\n\x1b[31mred\x1b[0m \x1b]0;title\x07end\r\nlast", 3)
		require.Equal(t, "Loading...\n{\"no\": \"type\"}\n{broken\n[1]\nnull\nred end\nlast\n", got, format)
		require.Nil(t, s.Report(), format)
	}
	require.Nil(t, New("none"))
}

func TestLinesThatAreTooLongAreSkipped(t *testing.T) {
	s := New("claude")
	got := read(s, "a\n"+strings.Repeat("x", 3<<20)+"\nb\n", 1<<16)
	require.Equal(t, "a\n(a line of 3072 kB is not shown)\nb\n", got)
	require.LessOrEqual(t, cap(s.buf), 64<<10)
}

func TestToolsAreShownAsWhatTheyDo(t *testing.T) {
	s := New("claude")
	s.Root = "/project"
	for want, c := range map[string][2]string{
		"read     a.go":            {"Read", `{"file_path":"/project/a.go"}`},
		"read     /etc/passwd":     {"Read", `{"file_path":"/etc/passwd"}`},
		"read     /project/../x":   {"read_file", `{"absolute_path":"/project/../x"}`},
		"edit     b/c.go":          {"MultiEdit", `{"file_path":"/project/b/c.go","edits":[]}`},
		"edit     x.go, y.go":      {"apply_patch", `{"patch":"*** Begin Patch\n*** Update File: x.go\n@@\n*** Add File: y.go\n*** End Patch"}`},
		"command  go test ./...":   {"shell", `{"command":["bash","-lc","go test ./..."]}`},
		"command  ls -l 'a b'":     {"exec_command", `{"cmd":"ls -l 'a b'"}`},
		"search   func main":       {"Grep", `{"pattern":"func main","path":"/project"}`},
		"web      https://x.org":   {"WebFetch", `{"url":"https://x.org","prompt":"what"}`},
		"tool     Task look there": {"Task", `{"description":"look there","prompt":"long"}`},
		"tool     mcp__x__y":       {"mcp__x__y", `{"a":1}`},
		"tool     a b":             {"a\x1b[2J\nb", `7`},
		"command  bash":            {"bash", `nonsense`},
		"read     one.go two.go":   {"read_files", `{"files":[{"path":"one.go"},{"path":"two.go"}]}`},
		"command  make && ./run":   {"run_commands", `{"commands":["make","&&","./run"]}`},
		"edit     made.txt":        {"write_to_file", `{"path":"made.txt","content":"x"}`},
	} {
		kind, text := s.tool(c[0], []byte(c[1]))
		require.Equal(t, "* "+want, strings.TrimSuffix(Render(api.Step{Kind: kind, Text: oneLine(text, maxText)}), "\n"))
	}
}

func TestFailuresOfCodex(t *testing.T) {
	got := read(New("codex"), `{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"/bin/bash -lc 'npm test'","status":"in_progress"}}
{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"/bin/bash -lc 'npm test'","aggregated_output":"a\nb\n3 tests failed\n","exit_code":1,"status":"failed"}}
{"type":"item.completed","item":{"id":"i2","type":"command_execution","command":"rm -rf /","aggregated_output":"","exit_code":null,"status":"declined"}}
{"type":"item.completed","item":{"id":"i3","type":"file_change","changes":[{"path":"a.go","kind":"update"},{"path":"b.go","kind":"add"}],"status":"completed"}}
{"type":"item.completed","item":{"id":"i4","type":"mcp_tool_call","server":"s","tool":"t","status":"failed","error":{"message":"no such tool"}}}
{"type":"item.completed","item":{"id":"i5","type":"web_search","query":"go 2"}}
{"type":"turn.failed","error":{"message":"stream disconnected"}}
`, 100)
	require.Equal(t, `* command  npm test
* failed   npm test: exit 1, 3 tests failed
* command  rm -rf /
* refused  by its own rules: rm -rf /
* edit     a.go, b.go
* failed   no such tool
* web      go 2
* failed   stream disconnected
`, got)
}

func TestAnErrorOfClaudeIsReported(t *testing.T) {
	s := New("claude")
	got := read(s, `{"type":"result","subtype":"error_during_execution","is_error":true,"result":"API Error: 401 Invalid key","usage":{"input_tokens":0,"output_tokens":0}}`, 9)
	require.Equal(t, "* failed   API Error: 401 Invalid key\n", got)
	require.Equal(t, &api.TaskReport{Error: "API Error: 401 Invalid key"}, s.Report())
}

func TestWhatPolisSawIsAmongTheSteps(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := New("claude")
	s.Now = func() time.Time { return at }
	require.Equal(t, "* refused  write of .env\n", Render(s.Note(api.StepRefused, "write of\n.env")))
	for range MaxKept + 5 {
		s.Note(api.StepWaiting, "for a lease")
	}
	kept, total := s.Kept()
	require.Len(t, kept, MaxKept)
	require.Equal(t, MaxKept+6, total)
	require.Equal(t, api.Step{Time: at, Kind: api.StepWaiting, Text: "for a lease"}, kept[0])
}

func TestTheOtherOutputIsText(t *testing.T) {
	var changes []string
	for i := range 12 {
		changes = append(changes, fmt.Sprintf(`{"path":"f%d","kind":"update"}`, i))
	}
	cut := read(New("codex"), `{"type":"item.completed","item":{"id":"i1","type":"file_change","changes":[`+strings.Join(changes, ",")+`],"status":"completed"}}`+"\n", 1000)
	require.Contains(t, cut, "f9 and 2 more (polisctl tasks show ID --output --raw has all)")

	s := New("codex")
	var b strings.Builder
	for _, piece := range []string{"warn", "ing: x\n\n", "{\"type\":\"error\",\"message\":\"y\"}\n", "last"} {
		for _, st := range s.Text([]byte(piece)) {
			b.WriteString(Render(st))
		}
	}
	require.Equal(t, "warning: x\n{\"type\":\"error\",\"message\":\"y\"}\n", b.String())
	require.Equal(t, "last\n", read(s, "", 1))
	kept, _ := s.Kept()
	require.Empty(t, kept)
	require.Len(t, s.Text([]byte(strings.Repeat("z", 1<<20))), 1)
	require.False(t, New("").Reads())
}

// TestRefusalsInTextAreFound: the lines that the real programs printed (Gemini: after its source).
func TestRefusalsInTextAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[93m\x1b[1m! \x1b[0mpermission requested: bash (echo hello); auto-rejecting\n":                                        "bash (echo hello)",
		"✗ do the work (shell)\n  │ echo hello\n  └ Permission denied because no interactive user response was available. Retry\n": "echo hello",
		"Error executing tool run_shell_command: Tool execution denied by policy.\n":                                               "run_shell_command",
		"  └ Permission denied because no interactive user response was available.\n":                                              "a call",
		"I saw: ! permission requested: bash (x); auto-rejecting\n":                                                                "",
		"✗ a test failed\n  │ npm test\n  └ exit 1\n\n" + strings.Repeat("x", 1<<20) + "\n":                                        "",
	} {
		for _, n := range []int{1, 1 << 21} {
			s := New("")
			for b := []byte(text); len(b) > 0; b = b[min(n, len(b)):] {
				s.Watch(b[:min(n, len(b))])
			}
			r := s.Report()
			if want == "" {
				require.Nil(t, r, text[:20])
				continue
			}
			require.NotNil(t, r, text)
			require.Equal(t, []string{want}, r.OwnRefused)
			kept, _ := s.Kept()
			require.Len(t, kept, 1)
		}
	}
}

// TestNothingHostilePasses: whatever is printed, what is shown has no control characters
// and is bounded, and how the output was cut into pieces makes no difference.
func TestNothingHostilePasses(t *testing.T) {
	var samples []string
	files, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		samples = append(samples, strings.Split(string(b), "\n")...)
	}
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 8).Draw(rt, "lines") {
			line := rapid.SampledFrom(samples).Draw(rt, "line")
			if rapid.Bool().Draw(rt, "broken") && line != "" {
				at := rapid.IntRange(0, len(line)).Draw(rt, "at")
				line = line[:at] + rapid.SampledFrom([]string{"", "\x1b[2J", "\\u001b]52;c;x\\u0007", "\\u202e", "\x80", "{", "\"", "\\n", "\\ud800"}).Draw(rt, "insert") + line[at:]
			}
			b.WriteString(line + "\n")
		}
		format := rapid.SampledFrom(Formats()).Draw(rt, "format")
		whole := check(rt, format, b.String(), 1<<20)
		require.Equal(rt, whole, check(rt, format, b.String(), rapid.IntRange(1, 50).Draw(rt, "piece")))
	})
}

type failer interface {
	require.TestingT
}

func check(t failer, format, text string, piece int) string {
	s := New(format)
	got := read(s, text, piece)
	for _, r := range got {
		require.False(t, r != '\n' && r != '\t' && (r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e), "%q", got)
	}
	if r := s.Report(); r != nil {
		require.LessOrEqual(t, len(r.Answer), MaxAnswer+3)
		require.LessOrEqual(t, len(r.OwnRefused), maxOwn)
	}
	kept, _ := s.Kept()
	require.LessOrEqual(t, len(kept), MaxKept)
	for _, k := range kept {
		require.LessOrEqual(t, len(k.Text), maxText+3)
	}
	return got
}

func FuzzStreams(f *testing.F) {
	files, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(f, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(b))
	}
	f.Add("{\"type\":\"result\"}\n\x1b[31m")
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range Formats() {
			check(t, format, text, 1<<20)
		}
	})
}
