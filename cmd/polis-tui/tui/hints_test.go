package tui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (s *screen) lastLine() string {
	lines := s.m.lines()
	return ansi.Strip(lines[len(lines)-1])
}

func TestTheKeysBelowAreThoseThatMatterAndFit(t *testing.T) {
	f := crowd()
	f.asked = []api.Approval{{ID: "zoe.q1", Agent: "zoe"}}
	f.tasks = []api.Task{{ID: "one.1", Agent: "one", Commits: 1}}
	for _, c := range []struct{ agent, want string }{
		{"cold", "enter log  C decide  i say"},
		{"zoe", "enter log  A answer  i say"},
		{"lock", "enter log  L locks  i say"},
		{"one", "enter log  i say  d diff  x stop  t tasks"},
		{"two", "enter log  s start  i task  d diff  t tasks  u revert"},
	} {
		inBubble(t, f, func(t *testing.T, s *screen) {
			s.keys("/" + c.agent + "<enter>")
			require.True(t, strings.HasPrefix(s.lastLine(), c.want), s.lastLine())
			for _, width := range []int{40, 60, 80, 200} {
				s.send(tea.WindowSizeMsg{Width: width, Height: 24})
				for keys, end := range map[string]string{"": "? help  q quit", "e": "esc back  ? help", "A": "esc back", "C": "esc back", "t": "esc back", ":": "esc cancel", "?": "any other key: back", "l": "esc back  ? help"} {
					s.keys(keys)
					require.True(t, strings.HasSuffix(s.lastLine(), end), "%d, %s: %s", width, keys, s.lastLine())
					require.LessOrEqual(t, ansi.StringWidth(s.lastLine()), width)
					if keys != "" {
						s.keys("<esc>")
					}
					s.m.filter = c.agent // esc may have dropped it
				}
			}
		})
	}
}
