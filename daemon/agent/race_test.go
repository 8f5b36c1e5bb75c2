package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A racer was removed, and another agent got its name: the race finds that its racer is gone, and
// does nothing to the other agent.
func TestARaceDoesNothingToAnotherAgentOfTheName(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	add := func(race string) {
		t.Helper()
		_, err := w.Add(t.Context(), api.AddRequest{Name: "r1-1", BaseType: "custom", Command: []string{"sh"}, Race: race})
		require.NoError(t, err)
	}
	var ran []string
	w.k.onRun = func(command []string) string { ran = append(ran, command[len(command)-1]); return "" }
	add("r1")
	w.k.dirty["r1-1"] = true
	gone, err := w.Discard(t.Context(), "r1-1", false)
	require.NoError(t, err)
	require.NotEmpty(t, gone.Trash)
	for _, other := range []string{"", "r2"} {
		add(other)
		w.k.dirty["r1-1"] = true
		_, _, err = w.CheckIn(t.Context(), "r1-1", "r1", "check")
		require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
		require.Empty(t, ran)
		_, err = w.MergeRacer(t.Context(), "r1-1", "r1")
		require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
		require.NoError(t, w.KeepRacer(t.Context(), "r1-1", "r1", true))
		trash, err := w.DropRacer(t.Context(), "r1-1", "r1")
		require.NoError(t, err)
		require.Equal(t, gone.Trash, trash, "where the work of the racer is")
		a, err := w.lookup("r1-1")
		require.NoError(t, err, "the other agent is still there")
		require.Equal(t, []any{other, false, ""}, []any{a.Copy().Race, a.Copy().Ephemeral, a.Copy().MergeCommitSHA})
		_, err = w.Remove(t.Context(), "r1-1", true, false)
		require.NoError(t, err)
	}

	add("r1")
	_, _, err = w.CheckIn(t.Context(), "r1-1", "r1", "check")
	require.NoError(t, err)
	require.Equal(t, []string{"check"}, ran)
	commit, err := w.MergeRacer(t.Context(), "r1-1", "r1")
	require.NoError(t, err)
	require.Equal(t, "c", commit)
	require.NoError(t, w.KeepRacer(t.Context(), "r1-1", "r1", true))
	a, err := w.lookup("r1-1")
	require.NoError(t, err)
	require.Equal(t, []any{"", true}, []any{a.Copy().Race, a.Copy().Ephemeral})
	require.NoError(t, w.KeepRacer(t.Context(), "r1-1", "r1", true), "again, after a crash")
}
