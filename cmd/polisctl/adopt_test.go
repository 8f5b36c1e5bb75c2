package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestNamesOfAdoptedAgents(t *testing.T) {
	for want, tree := range map[string]ownTree{
		"login":                    {branch: "feature/login"},
		"fix-1-2":                  {branch: "Fix__1.2-"},
		"worktree":                 {branch: "x"},
		"here":                     {path: "/srv/here"},
		"abcdefghijklmnopqrstuvwx": {branch: "abcdefghijklmnopqrstuvwxyz0123456789"},
	} {
		got := agentName(tree, map[string]bool{})
		require.Equal(t, want, got)
		require.NoError(t, api.CheckName(got))
		require.Equal(t, want+"-2", agentName(tree, map[string]bool{want: true}))
	}
	taken := map[string]bool{"ab": true}
	for range 12 {
		name := agentName(ownTree{branch: "ab"}, taken)
		require.False(t, taken[name])
		require.NoError(t, api.CheckName(name))
		taken[name] = true
	}
}
