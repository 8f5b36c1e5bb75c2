package agent

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A text that the program of the present task takes is not the next task as well.
func TestATextThatIsTakenIsDeliveredOnce(t *testing.T) {
	w := sayWorld(t)
	w.k.asksSaid = true
	take := func(id, by string) api.SaidResponse {
		t.Helper()
		r, err := w.Said(t.Context(), "a1", api.SaidRequest{Take: id, By: by})
		require.NoError(t, err)
		return r
	}
	next := func() string {
		t.Helper()
		r, err := w.Said(t.Context(), "a1", api.SaidRequest{})
		require.NoError(t, err)
		return r.ID
	}
	require.Empty(t, next())
	_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "first"})
	require.NoError(t, err)
	one, two := w.say(t, "one"), w.say(t, "two")
	require.Equal(t, "agent a1 gets it at its next tool call; if it makes none, it is a1.2 after a1.1 ends, in the same conversation", one.Message)
	require.Equal(t, api.SayToolCall, one.Task.Said.Way)

	// Of two hooks at the same time one gets it; a request that is repeated has the same answer.
	require.Equal(t, one.Task.ID, next())
	var both sync.WaitGroup
	got := map[string]api.SaidResponse{}
	var mu sync.Mutex
	for _, by := range []string{"a", "b"} {
		both.Go(func() {
			r, err := w.Said(t.Context(), "a1", api.SaidRequest{Take: one.Task.ID, By: by})
			mu.Lock()
			defer mu.Unlock()
			assert.NoError(t, err)
			got[by] = r
		})
	}
	both.Wait()
	require.NotEqual(t, got["a"].ID == "", got["b"].ID == "")
	for by, r := range got {
		require.Equal(t, r, take(one.Task.ID, by))
	}
	record := w.taskRecord(t, one.Task.ID)
	require.Equal(t, api.OutcomeDelivered, record.Outcome)
	require.Equal(t, "delivered to a1.1", record.Result)
	require.True(t, record.Final)
	require.Equal(t, "a1.1", record.Said.To)
	require.Equal(t, "a1.1", w.lastTask(w.agent(t)).ID, "a text is not the agent's last task")

	// A daemon that is restarted knows it.
	w, _ = w.next(t)
	w.continuing()
	require.Equal(t, two.Task.ID, next())
	w.exit(t, 0)
	w.begins(t, two.Task.ID)
	require.Empty(t, next())
	require.Empty(t, take(two.Task.ID, "c").ID, "it is a task by now")
	require.Empty(t, take(one.Task.ID, "c").ID)
	require.Empty(t, take("a1.1", "c").ID, "nobody said it")
	_, err = w.Said(t.Context(), "a1", api.SaidRequest{Take: "a1.9", By: "c"})
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	_, err = w.Said(t.Context(), "a1", api.SaidRequest{Take: two.Task.ID})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	w.exit(t, 0)
	all, err := w.Tasks("a1")
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Nil(t, all[1].Began, "what was delivered did not begin")
}
