package tui

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// patrolled is a frozen agent with its case, and a case of an agent that was removed since.
func patrolled() *fakeDaemon {
	f := twoAgents()
	since := time.Now()
	f.agents[1].Waiting = &api.Waiting{For: api.WaitingThaw, Since: since, What: "breaker deletions: 101 in 2 s, 100 are allowed in a minute"}
	f.cases = []api.Case{
		{ID: "case-3", State: api.CasePending, Kind: "breaker", Workspace: "demo", Agent: "one", Task: "one.2", Opened: since, Seen: 1, Escalated: 2,
			Evidence: []string{"breaker deletions: 101 in 2 s, 100 are allowed in a minute", "processes: 4711 rm", "last: many/7\x1b[2J, many/8"},
			Resolves: "the agent is thawed, stopped or removed", Next: "polisctl agents thaw one lets it continue", Rewind: "s1"},
		{ID: "case-4", State: api.CaseZombieDetected, Kind: "stalled", Workspace: "demo", Agent: "old", Opened: since, Seen: 3, Evidence: []string{"no output for 15m0s"}, Resolves: "it does something", Next: "polisctl agents watch old"},
	}
	return f
}

var clock = regexp.MustCompile(`\d{4}-\d\d-\d\d |\d\d:\d\d:\d\d`)

// snapshot compares the screen with a file; POLIS_UPDATE=1 writes it. Times of day depend on the
// machine's time zone.
func snapshot(t *testing.T, s *screen, name string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(s.text()) {
		lines = append(lines, strings.TrimRight(clock.ReplaceAllStringFunc(line, func(s string) string { return strings.Repeat("_", len(s)) }), " \n"))
	}
	got, file := strings.Join(lines, "\n")+"\n", filepath.Join("testdata", name)
	if os.Getenv("POLIS_UPDATE") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestCasesHaveAScreen(t *testing.T) {
	inBubble(t, patrolled(), func(t *testing.T, s *screen) {
		snapshot(t, s, "frozen.txt")
		s.keys("C")
		snapshot(t, s, "cases.txt")
		require.NotContains(t, strings.Join(s.m.lines(), "\n"), "\x1b[2J")
		s.send(tea.WindowSizeMsg{Width: 40, Height: 10})
		require.Len(t, s.m.lines(), 10)
		for range 10 {
			s.keys("<pgdown>")
		}
		require.Contains(t, s.text(), "polisctl agents thaw one", "the end of the details can be reached")
	})
}

func TestCasesAreDecidedByKey(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		asks       string
		answer     string
		calls      []string
		shows      []string
	}{
		{name: "thaw", keys: "Ct", asks: "Thaw one? Its processes continue where they were. [y/N]", answer: "y", calls: []string{"thaw one"}, shows: []string{"agent one continues", "> case-4", "1 open case"}},
		{name: "no thaw", keys: "Ct", asks: "Thaw one?", answer: "n", shows: []string{"nothing was done", "> case-3"}},
		{name: "rewind", keys: "Cw", asks: "Rewind one to s1? Its files are brought back", answer: "y", calls: []string{"rewind one to s1"}, shows: []string{"2 paths of agent one brought back", "polisctl rewind one --to s2"}},
		{name: "no rewind", keys: "Cjw", asks: "agent old is gone", answer: "k", shows: []string{"> case-3"}},
		{name: "stop", keys: "Cx", asks: "Stop one? What it runs is ended, its work stays.", answer: "y", calls: []string{"stop one"}, shows: []string{"agent one is Stopped"}},
		{name: "resolve", keys: "Cr", asks: "resolve case-3, note: _", answer: "seen it<enter>", calls: []string{"resolve case-3: seen it"}, shows: []string{"> case-4", "1 open case", "the agent stays as it is"}},
		{name: "resolve without a note", keys: "Cjr", asks: "resolve case-4", answer: "<enter>", calls: []string{"resolve case-4: "}, shows: []string{"> case-3"}},
		{name: "no resolve", keys: "Cr", asks: "resolve case-3", answer: "x<esc>", shows: []string{"2 open cases"}},
		{name: "the log and back", keys: "C<enter>", asks: "log of one", answer: "<esc>", shows: []string{"> case-3"}},
		{name: "the diff and back", keys: "Cd", asks: "+new", answer: "q", shows: []string{"> case-3"}},
		{name: "an agent that is gone", keys: "Cjt", asks: "agent old is gone", answer: "k", shows: []string{"> case-3"}},
		{name: "back to the agents", keys: "C", asks: "2 open cases", answer: "<esc>", shows: []string{"> one ", "2 cases (C)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := patrolled()
			inBubble(t, f, func(t *testing.T, s *screen) {
				s.keys(c.keys)
				require.Contains(t, s.text(), c.asks)
				require.Empty(t, f.changes())
				s.keys(c.answer)
				require.Equal(t, c.calls, f.changes())
				s.run(s.m.look())
				for _, want := range c.shows {
					require.Contains(t, s.text(), want)
				}
				require.False(t, s.left)
			})
		})
	}
}

// A case that the facts resolve leaves the screen, and the agent that continues is not thawed again.
func TestACaseThatIsOverLeavesTheScreen(t *testing.T) {
	f := patrolled()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("C")
		f.agents[1].Waiting = nil
		s.run(s.m.look())
		s.keys("t")
		require.Contains(t, s.text(), "agent one is not frozen")
		f.cases = nil
		s.run(s.m.look())
		require.Contains(t, s.text(), "no case is open")
		require.Contains(t, s.text(), "case-3 is resolved")
		s.keys("rxt")
		require.Empty(t, f.changes())
	})
}
