package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// worked is an agent whose three tasks are merged, merged, and failed.
func worked() *fakeDaemon {
	f := twoAgents()
	began := time.Now().Add(-time.Hour)
	ended := began.Add(41 * time.Second)
	task := func(id, result, prompt string) api.Task {
		return api.Task{ID: id, Agent: "two", State: api.TaskEnded, Time: began, Began: &began, Ended: &ended, Result: result, Prompt: prompt}
	}
	first, second, third := task("two.1", "merged", "add a cart"), task("two.2", "merged", "Corrige le calcul\u00a0: \u00ab\u202fTVA\u202f\u00bb\npuis un test"), task("two.3", "check failed", "more")
	first.Commits, first.MergeCommitSHA, second.Commits = 2, "0123456789abcdef", 1
	third.CheckOutput, third.Check = "ok first\x1b[2J\nFAIL second\n", 1
	f.tasks, f.diff = []api.Task{{Via: "send", Agent: "two", Prompt: "old"}, first, second, third}, ""
	return f
}

func TestTheDiffOfAMergedTaskIsShown(t *testing.T) {
	f := worked()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("jd")
		require.Contains(t, s.text(), "t lists its tasks", "there is nothing left to merge")
		s.keys("<esc>t")
		snapshot(t, s, "tasks.txt")
		s.keys("j")
		require.Contains(t, s.text(), "> two.2")
		require.Contains(t, s.text(), "Corrige le calcul : \u00ab TVA \u00bb", "no-break spaces are spaces")
		s.keys("jd")
		require.Contains(t, s.text(), "diff of task two.1")
		require.Contains(t, s.text(), "+by-two.1")
		s.keys("muDx")
		require.Empty(t, f.changes(), "keys of agents do nothing there")
		s.keys("<esc>")
		require.Contains(t, s.text(), "> two.1", "the selection stays")
		require.Contains(t, s.text(), "merged as 0123456789ab")
		s.keys("<enter>")
		require.Contains(t, s.text(), "output of task two.1")
		require.Contains(t, s.text(), "printed-by-two.1")
		require.NotContains(t, strings.Join(s.m.lines(), "\n"), "\x1b[2J")
		s.keys("qq")
		require.Contains(t, s.text(), "> two ", "back at the agents")
		require.False(t, s.left)
	})
}

func TestTheSelectedTaskStaysWhileTasksCome(t *testing.T) {
	f := worked()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("jtj")
		f.tasks = append(f.tasks, api.Task{ID: "two.4", Agent: "two", Prompt: "new"})
		s.run(s.m.readTasks())
		require.Contains(t, s.text(), "> two.2")
		require.Contains(t, s.text(), "4 tasks")
		f.tasks = f.tasks[:2]
		s.run(s.m.readTasks())
		require.Contains(t, s.text(), "> two.1", "the one that is left")
		f.tasks = nil
		s.run(s.m.readTasks())
		require.Contains(t, s.text(), "agent two has had no task yet")
		s.keys("d")
		require.Contains(t, s.text(), "no task is selected")
	})
}

func TestScreensOfEverySize(t *testing.T) {
	f := worked()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.send(tea.WindowSizeMsg{Width: 40, Height: 10})
		snapshot(t, s, "list40.txt")
		s.keys("jt")
		snapshot(t, s, "tasks40.txt")
		s.keys("<esc>")
		s.send(tea.WindowSizeMsg{Width: 39, Height: 10})
		require.Contains(t, s.text(), "polis needs 40 by 10 cells")
		s.send(tea.WindowSizeMsg{Width: 300, Height: 100})
		require.Contains(t, s.text(), "LAST OUTPUT")
		require.Len(t, s.m.lines(), 100)
	})
}

func TestATerminalWithoutLineCharactersHasOtherBorders(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"+- polis": {"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "\u256d\u2500 polis": {"LC_CTYPE": "C.utf8", "LANG": "C"},
	} {
		m := newModel(Options{Getenv: func(n string) string { return env[n] }}, nil)
		require.Contains(t, (&screen{m: m}).text(), want)
	}
}
