package tui

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandsOfThePaletteDoWhatTheirWordsSay(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		calls      []string
		says       string
	}{
		{"by its words", ":merge<enter>y", []string{"merge one"}, "agent/one is merged"},
		{"it asks, too", ":merge<enter>n", nil, "nothing was done"},
		{"by ctrl+p", "<ctrl+p>agents stop<enter>y", []string{"stop one"}, "agent one is Stopped"},
		{"for another agent", ":merge two<enter>y", []string{"merge two"}, "is merged"},
		{"with a text", ":say one hello  you<enter>", []string{"say one: hello  you"}, "queued as"},
		{"say to one that does not run is a task", ":say two fix it<enter>", []string{"run two: fix it"}, "has its task"},
		{"run is a task also for one at work", ":run one fix it<enter>", []string{"run one: fix it"}, "has its task"},
		{"without the text it opens the input", ":run two<enter>fix it<enter>", []string{"run two: fix it"}, "has its task"},
		{"no name", ":run<enter>fix it<enter>", []string{"run one: fix it"}, "has its task"},
		{"a text for all", ":broadcast stop all<enter>", []string{"broadcast: stop all"}, "said to 1 running agent"},
		{"the longer words count", ":agents leftovers --end<enter>y", []string{"end leftovers one"}, "1 process of agent one ended"},
		{"by the beginning, completed", ":agents sto<tab>two<enter>y", []string{"stop two"}, "agent two is Stopped"},
		{"by what it does", ":ready<enter>", []string{"ready one"}, "ready for a task"},
		{"by place", ":agents st<down><enter>y", []string{"stop one"}, "Stopped"},
		{"not frozen", ":agents thaw one<enter>", nil, "agent one is not frozen"},
		{"no such agent", ":merge nobody<enter>", nil, "there is no agent nobody"},
		{"a text that it does not take", ":merge one now<enter>", nil, "merge takes no text"},
		{"no such command", ":xyzzy<enter>", nil, "there is no such command"},
		{"a name behind what it does", ":ready two<enter>", nil, "NAME comes behind all words of one"},
		{"given up", ":merge<esc>", nil, "> one"},
		{"from a pane", "jd:merge<enter>y", []string{"merge two"}, "is merged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := twoAgents()
			inBubble(t, f, func(t *testing.T, s *screen) {
				s.keys(c.keys)
				require.Equal(t, c.calls, f.changes())
				require.Contains(t, s.text(), c.says)
				require.Nil(t, s.m.palette)
				require.False(t, s.left)
			})
		})
	}
}

func TestThePaletteListsAndSelects(t *testing.T) {
	inBubble(t, twoAgents(), func(t *testing.T, s *screen) {
		s.keys(":")
		snapshot(t, s, "palette.txt")
		s.keys("locks")
		require.Contains(t, s.text(), "> agents locks")
		require.NotContains(t, s.text(), "agents watch")
		s.keys("<enter>")
		require.Contains(t, s.text(), "locks of one")
		s.keys("<esc>:zzz")
		require.Contains(t, s.text(), "no command has these words")
	})
}

// An agent can have a name that is a word of commands.
func TestANameDoesNotSelectACommandForAnotherAgent(t *testing.T) {
	f := twoAgents()
	f.agents[0].Name = "agent"
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("j:stop agent<enter>y")
		require.Empty(t, f.changes(), "agents stop would be for the selected one")
		s.keys(":agents stop agent<enter>y:agents sto<enter>y")
		require.Equal(t, []string{"stop agent", "stop one"}, f.changes())
	})
}

// Each command has the words of a verb of polisctl.
func TestThePaletteHasTheWordsOfPolisctl(t *testing.T) {
	keys := map[string]bool{}
	for _, c := range commands() {
		verb, _, _ := strings.Cut(c.words, " --")
		_, err := os.Stat("../../../docs/man/polisctl-" + strings.ReplaceAll(verb, " ", "-") + ".1")
		require.NoError(t, err, "polisctl has no verb %q", verb)
		require.False(t, c.key != "" && keys[c.key], "two commands have the key %s", c.key)
		keys[c.key] = true
		require.LessOrEqual(t, len(c.words), 23)
	}
}
