package patrol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestAnAgentIsRestartedThreeTimesADay(t *testing.T) {
	var r Restarts
	start := time.Unix(1_000_000, 0)
	for i := range maxRestarts {
		require.NoError(t, r.Take("alice", began, start.Add(time.Duration(i)*time.Hour)))
	}
	err := r.Take("alice", began, start.Add(23*time.Hour))
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	require.ErrorContains(t, err, "agent alice was restarted 3 times in 24h0m0s")
	require.NoError(t, r.Take("bob", began, start.Add(23*time.Hour)), "another agent's restarts do not count")
	require.NoError(t, r.Take("alice", began, start.Add(24*time.Hour)), "the first is a day ago")
	require.Error(t, r.Take("alice", began, start.Add(24*time.Hour)))
	require.NoError(t, r.Take("alice", began.Add(1), start.Add(24*time.Hour)), "another agent of that name begins again")
	r.Forget(func(name string) bool { return name == "bob" })
	require.NoError(t, r.Take("alice", began, start.Add(24*time.Hour)), "a removed agent's name can be used again")
	require.Len(t, r.at["bob"].at, 1)
}
