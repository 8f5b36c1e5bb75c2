package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A text that a person said before a task was lost decides nothing about that task: it waits as any other, and a retry begins
// before it. A later one is a decision.
func TestATextSaidBeforeALossWaitsForItsDecision(t *testing.T) {
	w := sayWorld(t)
	a := w.agent(t)
	said := func(age time.Duration) api.Task {
		got, err := w.records(a).Create(api.Task{Prompt: "p", State: api.TaskQueued, Ahead: true, Time: w.Now().Add(-age), Said: &api.Said{By: "user:1000"}})
		require.NoError(t, err)
		return got
	}
	before := said(time.Hour)
	lost := w.lostTask(t, a)
	require.False(t, w.mayBegin(a, before))
	wait := w.waitOf(a, before)
	require.NotNil(t, wait)
	require.Equal(t, api.WaitLost, wait.For)
	require.Equal(t, lost, wait.Task)
	after := said(-time.Hour)
	require.True(t, w.mayBegin(a, after))
	require.Nil(t, w.waitOf(a, after))

	old, err := w.records(a).Get(lost)
	require.NoError(t, err)
	retry, err := w.retryFirst(a, old)
	require.NoError(t, err)
	require.True(t, w.mayBegin(a, retry))
	ids, err := w.records(a).In(api.TaskQueued)
	require.NoError(t, err)
	require.Equal(t, []string{retry.ID, before.ID, after.ID}, ids)
	require.True(t, w.mayBegin(a, before), "the retry decides")
	require.Equal(t, api.InterruptedPassed, notStarted(before))
	require.Equal(t, api.InterruptedKept, notStarted(retry))
}
