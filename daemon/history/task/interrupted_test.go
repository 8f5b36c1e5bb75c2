package task

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

func TestALossIsNotedInTheSameSaveAsTheEnd(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	one, err := s.Create(api.Task{Prompt: "one", State: api.TaskRunning})
	require.NoError(t, err)
	lost := End{At: began, By: api.EndLost, Message: "polisd was stopped", Interrupted: api.InterruptedNew}
	_, err = s.Update(one.ID, func(t *api.Task) { Finish(t, lost) })
	require.NoError(t, err)
	s = newStore(dir) // as the next polisd reads it
	ids, err := s.Interrupted(api.InterruptedNew)
	require.NoError(t, err)
	require.Equal(t, []string{one.ID}, ids)
	got, err := s.Get(one.ID)
	require.NoError(t, err)
	require.Equal(t, 1, got.Interruptions)
	require.Equal(t, api.OutcomeLost, got.Outcome)
	again, err := s.Update(one.ID, func(t *api.Task) { Finish(t, lost) })
	require.NoError(t, err)
	require.Equal(t, 1, again.Interruptions, "the first end counts")
	last, err := s.Last()
	require.NoError(t, err)
	require.Equal(t, api.InterruptedNew, last.Interrupted)
}

func TestARetryIsFoundByWhatItDoesAgain(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	_, err := s.Create(api.Task{Prompt: "one", State: api.TaskEnded})
	require.NoError(t, err)
	_, err = s.Create(api.Task{Prompt: "one", State: api.TaskQueued, RetryOf: "a1.1", Ahead: true})
	require.NoError(t, err)
	for _, s := range []*Store{s, newStore(dir)} {
		id, err := s.RetryOf("a1.1")
		require.NoError(t, err)
		require.Equal(t, "a1.2", id)
		id, err = s.RetryOf("a1.2")
		require.NoError(t, err)
		require.Empty(t, id)
	}
}

func TestALostTaskIsKeptUntilItIsDecided(t *testing.T) {
	s := newStore(t.TempDir())
	lost, err := s.Create(api.Task{Prompt: "lost", State: api.TaskEnded, EndedBy: api.EndLost, Interrupted: api.InterruptedKept})
	require.NoError(t, err)
	big := strings.Repeat("x", 1<<20)
	for range 20 {
		_, err := s.Create(api.Task{Prompt: big, State: api.TaskEnded})
		require.NoError(t, err)
	}
	_, err = s.Get(lost.ID)
	require.NoError(t, err)
	_, err = s.Update(lost.ID, func(t *api.Task) { t.Interrupted = "" })
	require.NoError(t, err)
	_, err = s.Create(api.Task{Prompt: big, State: api.TaskEnded})
	require.NoError(t, err)
	_, err = s.Get(lost.ID)
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
}

// The tasks that wait begin in the order in which they were given, the retries of lost ones first, also for a store that
// reads them again.
func TestTheOrderOfTasksThatWait(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		s := newStore(dir)
		var first, then []string
		for range rapid.IntRange(0, 6).Draw(rt, "tasks") {
			task := api.Task{Prompt: "p", State: rapid.SampledFrom([]api.TaskState{api.TaskQueued, api.TaskRunning, api.TaskEnded}).Draw(rt, "state"), Ahead: rapid.Bool().Draw(rt, "ahead")}
			task, err := s.Create(task)
			require.NoError(rt, err)
			switch {
			case task.State != api.TaskQueued:
			case task.Ahead:
				first = append(first, task.ID)
			default:
				then = append(then, task.ID)
			}
		}
		for _, s := range []*Store{s, newStore(dir)} {
			ids, err := s.In(api.TaskQueued)
			require.NoError(rt, err)
			require.Equal(rt, slices.Concat(first, then), ids)
		}
	})
}
