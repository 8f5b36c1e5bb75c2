package tui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// leaves ends what an agent waits for, elsewhere.
func (s *screen) leaves(name string) {
	i := slices.IndexFunc(s.f.agents, func(g api.Agent) bool { return g.Name == name })
	s.f.agents[i].Waiting = nil
	s.run(s.m.look())
}

// What was typed for an agent does nothing to the one that took its place in the list.
func TestAKeyActsOnTheAgentThatItWasPressedFor(t *testing.T) {
	for _, keys := range []string{"Dy", "s", "i do it<enter>", "ifix bugs<enter>", "c", "xy", "O", ":merge<enter>y", ":agents start<enter>"} {
		f := crowd()
		inBubble(t, f, func(t *testing.T, s *screen) {
			s.keys("/waiting<enter>k")
			require.Contains(t, s.text(), "> cold ")
			f.changes()
			s.leaves("cold")
			require.Contains(t, s.text(), "> zoe ")
			s.keys(keys)
			require.Empty(t, f.changes(), keys)
			require.Nil(t, s.m.ask, keys)
			require.Nil(t, s.m.input, keys)
			require.Contains(t, s.m.note, "agent zoe took the place of the selected one", keys)
			s.keys("<esc>")
			time.Sleep(settle)
			s.keys("s")
			require.Equal(t, []string{"ready zoe"}, f.changes(), keys)
		})
	}
}

func TestAPersonsOwnSelectionNeedsNoPause(t *testing.T) {
	f := crowd()
	inBubble(t, f, func(t *testing.T, s *screen) {
		for _, step := range [][2]string{{"/two<enter>s", "two"}, {"<esc>/zo<enter>s", "zoe"}, {"<esc>ks", "cold"}, {"/zoe<backspace><esc>s", "zoe"}, {":agents start lock<enter>", "lock"}} {
			s.keys(step[0])
			require.Equal(t, []string{"ready " + step[1]}, f.changes(), step[0])
		}
	})
}

// The agent that a pane names is the one its keys act on, also after it left the list below.
func TestASelectionThatMovedUnseenNeedsALook(t *testing.T) {
	f := crowd()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("/waiting<enter>k<enter>")
		s.leaves("cold")
		s.keys("x")
		require.Contains(t, s.text(), "Stop cold?")
		s.keys("n")
		time.Sleep(time.Minute)
		f.changes()
		s.keys("qDy")
		require.Empty(t, f.changes(), "the list was not on the screen")
		require.Contains(t, s.text(), "agent zoe took the place")
		time.Sleep(settle)
		s.keys("e")
		s.leaves("zoe")
		time.Sleep(time.Minute)
		f.agents[4].Waiting = &api.Waiting{For: api.WaitingThaw}
		s.run(s.m.look())
		s.keys("D")
		require.Nil(t, s.m.ask)
	})
}

// A command of the palette is for the agent that was selected when it was opened.
func TestThePaletteActsOnTheAgentThatItNames(t *testing.T) {
	f := crowd()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("/waiting<enter>k:agents start")
		require.Contains(t, s.text(), "for cold,")
		s.leaves("cold")
		require.Contains(t, s.text(), "for cold,")
		s.keys("<enter>")
		require.Equal(t, []string{"ready cold"}, f.changes())
		time.Sleep(settle)
		s.keys(":merge")
		f.agents = slices.DeleteFunc(f.agents, func(g api.Agent) bool { return g.Name == "zoe" })
		s.run(s.m.look())
		s.keys("<enter>")
		require.Nil(t, s.m.ask)
		require.Contains(t, s.text(), "nothing was done: agent zoe is gone")
	})
}

func TestALongQuestionKeepsItsAnswers(t *testing.T) {
	f := twoAgents()
	f.warning = strings.Repeat("a later merge changed the same file, ", 20)
	f.agents[1].Branch = "agent/" + strings.Repeat("x", 300)
	inBubble(t, f, func(t *testing.T, s *screen) {
		for _, width := range []int{40, 57, 80, 120} {
			s.m.width = width
			for _, key := range []string{"u", "m", "D"} {
				s.keys(key)
				require.Contains(t, s.text(), "[y/N]", "%s at %d", key, width)
				require.Contains(t, s.text(), "one", "the agent is named")
				require.NotContains(t, s.text(), "~ [y/N]~")
				s.keys("n")
			}
		}
	})
}
