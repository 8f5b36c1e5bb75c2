package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// requireHarmless requires that no control character of a text reaches the terminal.
func (s *screen) requireHarmless() {
	s.t.Helper()
	for _, line := range s.m.lines() {
		for _, r := range ansi.Strip(line) {
			require.False(s.t, r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\ufffd', "%q", line)
		}
	}
}

// A carriage return in a field takes nothing of the fields before it.
func TestAFieldDoesNotForgeItsRow(t *testing.T) {
	for prompt, shown := range map[string]string{
		"x\r\x1b[m": `x\x0d\x1b[m`, "x\r\u009b2J": `x\x0d\u009b2J`, "x\r  one.9  merged": `x\x0d  one.9`, "x\r": "x ", "two\r\nlines": "two...",
	} {
		f := twoAgents()
		f.tasks = []api.Task{{ID: "one.1", Agent: "one", Prompt: prompt, Result: "check\rfailed"}, {ID: "one.2", Agent: "one", Prompt: prompt}}
		inBubble(t, f, func(t *testing.T, s *screen) {
			s.send(tea.WindowSizeMsg{Width: 100, Height: 24})
			s.keys("t")
			require.Contains(t, s.text(), "> one.2 ", "%q", prompt)
			require.Contains(t, s.text(), "  one.1 ", "%q", prompt)
			require.Contains(t, s.text(), `check\x0dfailed`)
			require.Contains(t, s.text(), shown)
			require.NotContains(t, s.text(), "\u2502  one.9")
			s.requireHarmless()
			s.keys("j")
			require.Contains(t, s.text(), "> one.1 ")
			s.requireHarmless()
		})
	}
	f := patrolled()
	f.cases[0].Evidence = []string{"deletions\r\u009b2J"}
	f.agents[1].Waiting.What, f.agents[1].StatusReason = "many\rfew", "a\rb"
	f.locks[0].Path = "a\rb.txt"
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.send(eventMsg{ID: 1, Type: api.EventDenied, Agent: "one", Message: "write of secret\rREADME"})
		require.Contains(t, s.text(), `frozen 0s ago: many\x0dfew, a\x0db`)
		require.Contains(t, s.text(), `leases  a\x0db.txt`)
		require.Contains(t, s.text(), `access:denied      one        write of secret\x0dREADME`)
		s.requireHarmless()
		s.send(tea.WindowSizeMsg{Width: 100, Height: 24})
		s.keys("C")
		require.Contains(t, s.text(), "> case-3 ")
		require.Contains(t, s.text(), `seen        deletions\x0d\u009b2J`)
		s.requireHarmless()
		f.asked = []api.Approval{{ID: "one.aaaa", Agent: "one", Tool: "Bash", What: "rm\rmake", Since: time.Now()}}
		f.agents[1].Waiting.For = api.WaitingApproval
		s.keys("<esc>A")
		require.Contains(t, s.text(), `Bash rm\x0dmake`)
		s.requireHarmless()
	})
}

// What a person reads before a merge is all that is merged.
func TestNothingIsHiddenInADiff(t *testing.T) {
	f := twoAgents()
	f.diff = "diff --git a/f b/f\n+/*\x1b]0;*/evil(1)/*\x07*/\n+evil(2)\r+good()\n+a\x1bP*/evil(3)\x1b\\b\n+tab\tend\r\n+" + strings.Repeat(" ", 200) + "evil(4)\n"
	f.tasks = []api.Task{{ID: "one.1", Agent: "one", Check: 1, CheckOutput: "FAIL\rok\r\n\x1b]0;hidden\x07\n", Steps: nil}}
	f.steps = []api.Step{{Kind: api.StepCommand, Text: "rm -r .\rmake"}}
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("d")
		for _, want := range []string{`+/*\x1b]0;*/evil(1)/*\x07*/`, `+evil(2)\x0d+good()`, `+a\x1bP*/evil(3)\x1b\b`, "+tab    end "} {
			require.Contains(t, s.text(), want)
		}
		require.Regexp(t, `\+ +~\x{2502}`, s.text(), "a mark where the line continues")
		s.keys(strings.Repeat("<right>", 20))
		require.Contains(t, s.text(), "evil(4)")
		require.NotContains(t, s.text(), "~")
		s.requireHarmless()
		s.keys("<esc>t")
		for _, want := range []string{`  | FAIL\x0dok `, `  | \x1b]0;hidden\x07`, `rm -r .\x0dmake`} {
			require.Contains(t, s.text(), want)
		}
		s.requireHarmless()
	})
}
