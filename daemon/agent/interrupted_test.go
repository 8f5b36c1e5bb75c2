package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/history/task"
)

// lostTask records a task of an agent as lost at a restart.
func (w *world) lostTask(t *testing.T, a *Agent) string {
	t.Helper()
	rec, err := w.records(a).Create(api.Task{Prompt: "p", State: api.TaskRunning})
	require.NoError(t, err)
	_, err = w.records(a).Update(rec.ID, func(t *api.Task) {
		task.Finish(t, task.End{At: w.Now(), By: api.EndLost, Interrupted: api.InterruptedNew})
	})
	require.NoError(t, err)
	return rec.ID
}

func TestARestartDecidesAboutEachLostTaskOnce(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	for name, req := range map[string]api.AddRequest{"plain": {}, "racer": {Race: "r1"}} {
		req.Name, req.BaseType, req.Command = name, "custom", []string{"sh"}
		_, err := w.Add(t.Context(), req)
		require.NoError(t, err)
	}
	var asked, decided []string
	w.AskLost = func(_ *Agent, t api.Task) error { asked = append(asked, t.ID); return nil }
	w.LostDecided = func(_ *Agent, id, _ string) { decided = append(decided, id) }
	c := w.config()
	c.Tasks.OnRestart = api.OnRestartAsk
	w.SetConfig(c)
	plain, err := w.lookup("plain")
	require.NoError(t, err)
	racer, err := w.lookup("racer")
	require.NoError(t, err)
	one, other := w.lostTask(t, plain), w.lostTask(t, racer)
	for range 2 { // also a second start asks once
		w.restarted(plain)
		w.restarted(racer)
	}
	require.Equal(t, []string{one}, asked, "a race decides about its own")
	require.Equal(t, []string{one}, w.interrupted(plain, api.InterruptedKept))
	require.Equal(t, []string{other}, w.interrupted(racer, api.InterruptedPassed))
	require.Empty(t, decided)

	// The next polisd opens a question that could not be kept.
	two := w.lostTask(t, plain)
	w.AskLost = func(*Agent, api.Task) error { return errInjected }
	w.restarted(plain)
	require.Equal(t, []string{two}, w.interrupted(plain, api.InterruptedNew))

	// A retry that was made before polisd died is found.
	_, err = w.records(plain).Create(api.Task{Prompt: "p", State: api.TaskEnded, RetryOf: two})
	require.NoError(t, err)
	_, err = w.records(plain).Create(api.Task{Prompt: "p", State: api.TaskEnded, RetryOf: one})
	require.NoError(t, err)
	w.restarted(plain)
	require.ElementsMatch(t, []string{one, two}, decided)
	require.Empty(t, w.holding(plain))

	c.Tasks.OnRestart = api.OnRestartRetry
	w.SetConfig(c)
	three := w.lostTask(t, plain)
	w.restarted(plain)
	w.restarted(plain)
	queued, err := w.records(plain).In(api.TaskQueued)
	require.NoError(t, err)
	require.Len(t, queued, 1)
	again, err := w.records(plain).Get(queued[0])
	require.NoError(t, err)
	require.Equal(t, []any{three, 1, true}, []any{again.RetryOf, again.Interruptions, again.Ahead})
	_, err = w.records(plain).Update(again.ID, func(t *api.Task) {
		task.Finish(t, task.End{At: w.Now(), By: api.EndLost, Interrupted: api.InterruptedNew})
	})
	require.NoError(t, err)
	w.restarted(plain)
	require.Equal(t, []string{again.ID}, w.interrupted(plain, api.InterruptedKept), "interrupted twice")
}

func TestATaskDoesNotEndWhatRunsInAnotherVersionsShim(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sh"}}})
	require.NoError(t, err)
	a, err := w.lookup("a1")
	require.NoError(t, err)
	w.mu.Lock()
	a.foreign = true
	w.mu.Unlock()
	w.found(a, api.StatusError, "its shim is of another version")
	_, err = w.Run(t.Context(), "a1", api.RunRequest{Prompt: "p"})
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	require.Contains(t, api.AsError(err).Hint, "polisctl agents start a1 brings it back")
	require.Equal(t, api.StatusError, a.status(w.Manager))
}
