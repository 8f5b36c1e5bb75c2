package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSomeSettingsNeedARestart(t *testing.T) {
	old := Default()
	next := Default()
	next.MaxAgents, next.Network.Egress = old.MaxAgents+1, []string{"example.org"}
	live, restart := old.Reloaded(next)
	require.False(t, restart)
	require.Equal(t, next, live)

	for key := range next.fixed() {
		next := Default()
		next.MaxAgents = old.MaxAgents + 1
		*next.fixed()[key] = "another"
		live, restart := old.Reloaded(next)
		require.True(t, restart, key)
		require.Equal(t, old.MaxAgents+1, live.MaxAgents)
		require.Equal(t, "another", *next.fixed()[key], "the argument is not changed")
		live.MaxAgents = old.MaxAgents
		require.Equal(t, old, live, key)
		_, restart = live.Reloaded(next)
		require.True(t, restart, "it is reported each time")
	}
}
