package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/patrol"
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
		_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}}})
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
	require.Equal(t, gen, again, "generations begin again")
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
		_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}}})
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
	require.ErrorContains(t, w.SendSame(ctx, "a1", api.SendRequest{Text: "continue"}, func(Living) bool { return false }), "is not what it was")
	require.NoError(t, w.SendSame(ctx, "a1", api.SendRequest{Text: "continue"}, func(v Living) bool { return v.Created.Equal(second) }))
}

// TestAShimIsQueriedAgainOnceItsAgentRan: what a shim reported counts for a minute, and longer while nothing
// of its agent runs; not for another incarnation, and not if the records have the end of its task.
func TestAShimIsQueriedAgainOnceItsAgentRan(t *testing.T) {
	w, _ := tasked(t, t.TempDir())
	defer w.Close()
	k := w.agent(t).Copy()
	known := func(age time.Duration, change func(*Living)) Living {
		v := Living{Role: k.Role, Observed: patrol.Observed{Agent: "a1", Workspace: "w", Created: k.CreatedAt, Generation: k.Generation, Status: api.StatusRunning,
			Shim: true, Program: true, PID: 77, Task: "a1.1"}, InitPID: 76, At: time.Now().Add(-age)}
		if change != nil {
			change(&v)
		}
		return v
	}
	stood := func(v *Living) { v.Stood = true }
	for name, c := range map[string]struct {
		v       Living
		queried bool
	}{
		"half a minute ago":                  {known(30*time.Second, nil), false},
		"two minutes ago":                    {known(2*time.Minute, nil), true},
		"two minutes ago, nothing ran":       {known(2*time.Minute, stood), false},
		"a quarter of an hour, nothing ran":  {known(15*time.Minute, stood), true},
		"it could not be observed":           {known(0, func(v *Living) { v.Err = errInjected }), true},
		"its program had ended":              {known(0, func(v *Living) { v.Program = false }), true},
		"another generation":                 {known(0, func(v *Living) { v.Generation++ }), true},
		"another agent":                      {known(0, func(v *Living) { v.Created = v.Created.Add(1) }), true},
		"the task before, which has ended":   {known(0, func(v *Living) { v.Task = "a1.0" }), true},
		"a task whose end was known already": {known(0, func(v *Living) { v.Task, v.Ended = "a1.0", api.EndDone }), false},
		"no task":                            {known(0, func(v *Living) { v.Task = "" }), false},
	} {
		all := w.Observe(t.Context(), map[string]Living{"a1": c.v})
		require.Len(t, all, 1, name)
		require.Equal(t, c.queried, all[0].PID != 77, "%s: %+v", name, all[0])
	}
	all := w.Observe(t.Context(), nil)
	require.NotEqual(t, 77, all[0].PID, "a person's cycle queries every shim")
}
