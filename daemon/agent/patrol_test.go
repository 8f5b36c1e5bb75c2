package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestTheEndOfAnAgentIsNotThatOfTheNextOfItsName: the patrol found that the shim of an agent is gone. If
// that agent is removed meanwhile, and another one gets its name, whose shim is not up yet and whose
// generation is the first too, nothing is done to it.
func TestTheEndOfAnAgentIsNotThatOfTheNextOfItsName(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	now := time.Now()
	w.Now = func() time.Time { now = now.Add(time.Second); return now }
	add := func() (time.Time, uint64) {
		_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", Command: []string{"do"}})
		require.NoError(t, err)
		k := w.agent(t).Copy()
		w.k.mu.Lock()
		delete(w.k.set("shim"), "a1")
		w.k.mu.Unlock()
		return k.CreatedAt, k.Generation
	}
	first, gen := add()
	_, err := w.Remove(t.Context(), "a1", true, false)
	require.NoError(t, err)
	second, again := add()
	require.Equal(t, gen, again, "generations begin anew")
	err = w.Reconcile(t.Context(), "a1", first, gen)
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	require.Equal(t, api.StatusIdle, w.agent(t).status(w.Manager), "it is left alone")
	require.Equal(t, api.CodeBadState, api.CodeOf(w.Reconcile(t.Context(), "a1", second, gen+1)), "nor in another generation")
	require.NoError(t, w.Reconcile(t.Context(), "a1", second, gen))
	require.Equal(t, api.StatusError, w.agent(t).status(w.Manager), "its own end is processed")
}

// TestWhatThePatrolStoppedIsStartedAgainOnlyIfItIsTheSame: the agent that was stopped, and not one that has got its
// name or that was started meanwhile.
func TestWhatThePatrolStoppedIsStartedAgainOnlyIfItIsTheSame(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	ctx := t.Context()
	now := time.Now()
	w.Now = func() time.Time { now = now.Add(time.Second); return now }
	add := func() (time.Time, uint64) {
		_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", Command: []string{"do"}})
		require.NoError(t, err)
		k := w.agent(t).Copy()
		return k.CreatedAt, k.Generation
	}
	first, gen := add()
	_, err := w.Remove(ctx, "a1", true, false)
	require.NoError(t, err)
	second, _ := add()
	refused := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, "is not what it was")
		require.Equal(t, api.CodeBadState, api.CodeOf(err))
		require.Equal(t, api.StatusIdle, w.agent(t).status(w.Manager))
	}
	refused(w.StartSame(ctx, "a1", first, gen))
	refused(w.StartSame(ctx, "a1", second, gen+1))
	require.NoError(t, w.StartSame(ctx, "a1", second, gen))
	require.Equal(t, api.StatusRunning, w.agent(t).status(w.Manager))
	require.ErrorContains(t, w.SendSame(ctx, "a1", api.SendRequest{Text: "go on"}, func(Living) bool { return false }), "is not what it was")
	require.NoError(t, w.SendSame(ctx, "a1", api.SendRequest{Text: "go on"}, func(v Living) bool { return v.Created.Equal(second) }))
}
