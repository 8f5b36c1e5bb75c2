package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// TestWorkersAreWithinTheBudgetOfTheLastTask: neither an agent that says that its task is over, nor what a task left
// running, gets workers beyond the budget of the task. A command that a person starts is no task.
func TestWorkersAreWithinTheBudgetOfTheLastTask(t *testing.T) {
	w, first := tasked(t, t.TempDir())
	defer w.Close()
	a := w.agent(t)
	taskOf := func() string {
		require.NoError(t, w.budgetLeft(t.Context(), a, "a1"))
		return w.k.family[0].Task
	}
	require.Equal(t, first.ID, taskOf(), "it runs")
	w.says(t, wire.TaskDone{By: api.EndDone})
	require.Equal(t, first.ID, taskOf(), "its program continues")
	w.exit(t, 0)
	require.Equal(t, first.ID, taskOf(), "it can have left processes running")
	_, err := w.Start(t.Context(), "a1", false)
	require.NoError(t, err)
	require.Empty(t, taskOf(), "a person started its command")
	w.exit(t, 0)
	require.Equal(t, first.ID, taskOf())
	second, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "more"})
	require.NoError(t, err)
	require.Equal(t, second.ID, taskOf())
}
