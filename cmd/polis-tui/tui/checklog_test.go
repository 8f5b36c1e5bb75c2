package tui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A merge whose check fails opens the output of the check, unless a person does something else meanwhile.
func TestAFailedCheckShowsItsOutput(t *testing.T) {
	f := twoAgents()
	inBubble(t, f, func(t *testing.T, s *screen) {
		f.err = api.Errorf(api.CodeCheckFailed, "the check ended with exit code 1").WithHint("polisctl queue log one prints its output")
		s.keys("my")
		text := s.text()
		for _, want := range []string{"check of one", "request one.1: the check ended with exit code 1", "command  make test", "  | ok first", `  | \x1b]0;unterminated`, "  | FAIL TestSecond",
			"all of it: polisctl queue log one --check 1"} {
			require.Contains(t, text, want)
		}
		s.keys("<esc>")
		require.NotContains(t, s.text(), "FAIL TestSecond")
		s.keys("K")
		require.Contains(t, s.text(), "FAIL TestSecond", "also later")
		s.keys("<esc>")
		s.hold = true
		s.keys("my")
		s.hold = false
		s.keys("d")
		s.release()
		require.NotContains(t, s.text(), "check of one", "another pane is open")
	})
}

func TestTheTaskOfAFailedCheckHasItsLastLines(t *testing.T) {
	f, began := twoAgents(), time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	f.tasks = []api.Task{{ID: "one.1", Agent: "one", Began: &began, CheckOutput: "a\nFAIL b\n", Check: 3}}
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("t")
		require.Contains(t, s.text(), "  | FAIL b")
		require.Contains(t, s.text(), "polisctl queue log one --check 3")
	})
}
