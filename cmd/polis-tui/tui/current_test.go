package tui

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// What could not be read again is not shown as if it were of now.
func TestEveryScreenReportsThatItIsOld(t *testing.T) {
	for _, keys := range []string{"", "C", "A", "t", "d", "<enter>", "e"} {
		f := asking()
		f.tasks = []api.Task{{ID: "one.1", Agent: "one"}}
		f.cases = []api.Case{{ID: "case-1", Agent: "one", Workspace: "demo"}}
		inBubble(t, f, func(t *testing.T, s *screen) {
			s.keys(keys)
			require.NotContains(t, s.text(), "not connected", keys)
			f.err = api.Errorf(api.CodeUnavailable, "polisd does not answer")
			s.run(s.m.look())
			require.Contains(t, s.text(), "not connected", keys)
			f.err = nil
			s.run(s.m.look())
			require.NotContains(t, s.text(), "not connected", keys)
		})
	}
	f := worked()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("jt")
		f.err = api.Errorf(api.CodeUnavailable, "polisd does not answer")
		s.run(s.m.readTasks())
		require.Contains(t, s.text(), "not connected  3 tasks")
	})
}

func TestTheDetailsOfATaskAreNotOlderThanTheTask(t *testing.T) {
	f := worked()
	f.steps = []api.Step{{Kind: api.StepEdit, Text: "old.txt"}}
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("jt")
		require.Contains(t, s.text(), "old.txt")
		all := f.tasks[1:]
		all[len(all)-1].Result = "merged now"
		s.m.Update(tasksMsg{screen: s.m.taskScreen, all: all}) // the task itself could not be read
		s.m.chooseTask(len(all) - 1)
		require.Contains(t, s.text(), "result      merged now")
		require.NotContains(t, s.text(), "old.txt")
	})
}

// A diff that is wanted while another one is read is read again: the first may be from before a commit.
func TestAReloadWhileAPaneIsReadIsNotLost(t *testing.T) {
	f := twoAgents()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("d")
		s.hold = true
		s.keys("r")
		before := s.m.pane
		s.keys("rr")
		s.hold = false
		f.diff = "+first\n"
		s.send(linesMsg{pane: before, lines: []string{"+zeroth"}})
		require.Contains(t, s.text(), "+first")
		require.False(t, s.m.pane.loading || s.m.pane.again)
	})
}

func TestTasksOpenFromTheLogOfACase(t *testing.T) {
	f := patrolled()
	f.tasks = []api.Task{{ID: "one.1", Agent: "one"}}
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("C<enter>t")
		require.Contains(t, s.text(), "tasks of one")
		s.keys("<esc>")
		require.Contains(t, s.text(), "> one ", "back at the agents")
	})
}
