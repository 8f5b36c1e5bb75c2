package agent

import (
	"testing"
	"time"

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
		_, err := w.Add(t.Context(), api.AddRequest{Name: "r1-1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sh"}}, Race: race})
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
	racer, err := w.lookup("r1-1")
	require.NoError(t, err)
	require.NotEmpty(t, racer.Kept.Session)
	require.Equal(t, racer.Kept.Session, w.k.ranFor, "the shim refuses it if another agent has the name by then")
	commit, err := w.MergeRacer(t.Context(), "r1-1", "r1")
	require.NoError(t, err)
	require.Equal(t, "c", commit)
	require.NoError(t, w.KeepRacer(t.Context(), "r1-1", "r1", true))
	a, err := w.lookup("r1-1")
	require.NoError(t, err)
	require.Equal(t, []any{"", true}, []any{a.Copy().Race, a.Copy().Ephemeral})
	require.NoError(t, w.KeepRacer(t.Context(), "r1-1", "r1", true), "again, after a crash")
}

// What an agent began ends with it: another agent that has got its name is not marked as merged, not
// removed and not given memory for it.
func TestWhatOneAgentBeganDoesNothingToAnotherOfItsName(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.Now = func() time.Time { return at }
	add := func() *Agent {
		t.Helper()
		_, err := w.Add(t.Context(), api.AddRequest{Name: "ann", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sh"}, MemoryMB: 100}})
		require.NoError(t, err)
		a, err := w.lookup("ann")
		require.NoError(t, err)
		return a
	}
	first := add()
	e := w.mergeEntry("ann", api.MergeRequest{RemoveAfter: true})
	_, err := w.Remove(t.Context(), "ann", true, false)
	require.NoError(t, err)
	at = at.Add(time.Second)
	second := add()

	_, err = w.Landed(t.Context(), e, api.QueueOutcome{MergeCommitSHA: "c"}, nil)
	require.NoError(t, err)
	require.Empty(t, second.Copy().MergeStatus)
	w.removeAfter(first)
	var resp api.MergeResponse
	require.NoError(t, w.removal(t.Context(), "ann", &resp))
	require.False(t, resp.Removed)
	_, err = w.setOnly(t.Context(), first, "ann", api.SetRequest{MemoryMB: 200, Force: true})
	require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
	now, err := w.lookup("ann")
	require.NoError(t, err)
	require.Same(t, second, now)
	require.Equal(t, 100, now.Copy().MemoryLimitMB)

	at = at.Add(time.Second)
	_, err = w.Landed(t.Context(), w.mergeEntry("ann", api.MergeRequest{RemoveAfter: true}), api.QueueOutcome{MergeCommitSHA: "c"}, nil)
	require.NoError(t, err)
	require.NoError(t, w.removal(t.Context(), "ann", &resp))
	_, err = w.lookup("ann")
	require.Error(t, err, "its own merge counts")
}
