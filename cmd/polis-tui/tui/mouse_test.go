package tui

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// click presses the left button on the line of the screen that contains a text.
func (s *screen) click(text string) {
	s.t.Helper()
	for y, line := range strings.Split(s.text(), "\n") {
		if strings.Contains(line, text) {
			s.send(tea.MouseClickMsg{X: 4, Y: y, Button: tea.MouseLeft})
			return
		}
	}
	require.Fail(s.t, "not on the screen: "+text, s.text())
}

func (s *screen) wheel(button tea.MouseButton, y int) {
	s.send(tea.MouseWheelMsg{X: 4, Y: y, Button: button})
}

func TestAClickSelectsAndOpens(t *testing.T) {
	f := twoAgents()
	inBubble(t, f, func(t *testing.T, s *screen) {
		require.Equal(t, tea.MouseModeCellMotion, s.m.View().MouseMode)
		s.click("agent/two")
		require.Contains(t, s.text(), "> two ")
		s.send(tea.MouseClickMsg{X: 4, Y: 3, Button: tea.MouseRight})
		for _, y := range []int{0, 1, 9, 23, 99} { // the border, the head, below the last, the keys
			s.send(tea.MouseClickMsg{X: 4, Y: y, Button: tea.MouseLeft})
			require.Contains(t, s.text(), "> two ")
		}
		s.click("agent/two")
		require.Contains(t, s.text(), "log of two")
		s.keys("<esc>")
		s.wheel(tea.MouseWheelUp, 3)
		require.Contains(t, s.text(), "> one ")
		s.wheel(tea.MouseWheelDown, 3)
		require.Contains(t, s.text(), "> two ")
		s.keys(":")
		s.click("agents locks")
		require.Contains(t, s.text(), "locks of two")
		require.Empty(t, f.changes())
	})
}

func TestTheWheelScrollsWhatIsBelowIt(t *testing.T) {
	f := twoAgents()
	f.logs["one"] = strings.Repeat("line\n", 100)
	for i := range 9 {
		f.tasks = append(f.tasks, api.Task{ID: fmt.Sprint("one.", i+1), Agent: "one", Prompt: strings.Repeat("prompt\n", 50)})
	}
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("l")
		s.wheel(tea.MouseWheelUp, 5)
		require.Contains(t, s.text(), "78-97 of 100")
		s.keys("<esc>t")
		s.wheel(tea.MouseWheelDown, 2)
		require.Contains(t, s.text(), "> one.8")
		s.click("one.5")
		require.Contains(t, s.text(), "> one.5")
		require.NotContains(t, s.text(), "4-")
		s.wheel(tea.MouseWheelDown, 15)
		require.Regexp(t, `4-\d+ of`, s.text())
		require.Contains(t, s.text(), "> one.5")
		s.keys("<esc>?")
		s.send(tea.WindowSizeMsg{Width: 60, Height: 12})
		s.wheel(tea.MouseWheelDown, 5)
		require.Contains(t, s.text(), "4-11 of")
	})
}

func TestAClickDecidesNothing(t *testing.T) {
	f := asking()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("m")
		s.click("agent/two")
		require.Contains(t, s.text(), "[y/N]")
		s.keys("ni")
		s.click("agent/two")
		require.Contains(t, s.text(), "send to one: _")
		s.keys("<esc>A")
		s.click("one.cccc")
		require.Contains(t, s.text(), "> one.cccc")
		s.click("one.cccc")
		require.Empty(t, f.changes())
	})
}
