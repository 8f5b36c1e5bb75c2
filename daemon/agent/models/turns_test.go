package models

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAgentsBeginInTurnAfterEachPause(t *testing.T) {
	s := source(t, "[models.m]\nurl = \"http://127.0.0.1:1\"\n[gateway]\nmodels = [\"m\"]", nil)
	now := time.Now()
	s.Now = func() time.Time { return now }
	agents := []string{"ana", "bob", "eve"}
	require.Empty(t, s.Turns("m", agents), "it is not limited")
	order := func() (out [3]string) {
		for name, d := range s.Turns("m", agents) {
			require.Zero(t, d%turnGap)
			out[d/turnGap] = name
		}
		return out
	}
	for _, want := range [][3]string{{"bob", "eve", "ana"}, {"eve", "ana", "bob"}, {"ana", "bob", "eve"}, {"bob", "eve", "ana"}} {
		require.True(t, s.Pause("m", "ana", now.Add(time.Second)))
		require.Equal(t, want, order(), "each agent is first once in three pauses")
		require.True(t, s.Pause("m", "ana", now.Add(time.Second+time.Millisecond)), "another request was limited as well")
		require.Equal(t, want, order())
		now = now.Add(2 * time.Second)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	all := s.Turns("m", many)
	require.Len(t, all, 1000)
	for _, d := range all {
		require.Less(t, d, allTurns)
	}
	require.Len(t, s.turns["m"].agents, 1000, "those that are gone are forgotten")
}
