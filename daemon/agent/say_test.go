package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
)

// sayWorld has an idle agent whose program can continue its last session.
func sayWorld(t *testing.T) *world {
	w := newWorld(t.TempDir())
	t.Cleanup(w.Close)
	w.continuing()
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "claude"})
	require.NoError(t, err)
	return w
}

// continuing makes the base type claude one that is installed.
func (w *world) continuing() {
	loadAll, load := w.Types, w.Type
	w.Types = func() (map[string]config.BaseType, error) {
		all, err := loadAll()
		t := all["claude"]
		t.Program, t.Available = "", true
		all["claude"] = t
		return all, err
	}
	w.Type = func(name string) (config.BaseType, bool, error) {
		t, ok, err := load(name)
		t.Program, t.Available = "", true
		return t, ok, err
	}
}

func (w *world) say(t *testing.T, text string) api.SayResponse {
	t.Helper()
	r, err := w.Say(t.Context(), "user:1000", "a1", api.SayRequest{Text: text})
	require.NoError(t, err)
	require.Equal(t, "user:1000", r.Task.Said.By)
	require.Equal(t, text, r.Task.Prompt)
	return r
}

// begins waits until the agent's program works on a task: an exit before that would not be its own.
func (w *world) begins(t *testing.T, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		w.k.mu.Lock()
		started := w.k.running["a1"] && w.k.task["a1"] == id
		w.k.mu.Unlock()
		return started && w.agent(t).status(w.Manager) == api.StatusRunning
	}, 30*time.Second, time.Millisecond, "%s begins", id)
	require.Equal(t, api.TaskRunning, w.taskRecord(t, id).State)
}

func (w *world) taskRecord(t *testing.T, id string) api.Task {
	t.Helper()
	got, err := w.Task(t.Context(), id, false)
	require.NoError(t, err)
	return got
}

func TestATextToAnIdleAgentIsATask(t *testing.T) {
	w := sayWorld(t)
	r := w.say(t, "begin")
	require.Equal(t, api.SayTask, r.Task.Said.Way)
	require.Equal(t, api.TaskRunning, r.Task.State)
	require.False(t, r.Task.Continue, "there is nothing to continue yet")
	require.Equal(t, "agent a1 works on it as a1.1, as a task of its own: its program does not continue its last session", r.Message)
	w.exit(t, 0)
	r = w.say(t, "continue")
	require.True(t, r.Task.Continue)
	require.Equal(t, "agent a1 works on it as a1.2, in the same conversation", r.Message)
	require.Contains(t, r.Task.Command, "--continue")
}

// A text during a task is the next one, before tasks that wait already.
func TestATextDuringATaskIsTheNextOne(t *testing.T) {
	w := sayWorld(t)
	run := func(prompt string) api.Task {
		task, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: prompt, Queue: true})
		require.NoError(t, err)
		return task
	}
	first, other := run("first"), run("other")
	one, two := w.say(t, "one"), w.say(t, "two")
	require.Equal(t, "queued as a1.3, after a1.1 ends, in the same conversation", one.Message)
	require.Equal(t, api.SayQueued, one.Task.Said.Way)
	require.Empty(t, w.k.received["a1"], "nothing is typed into a task")
	for _, id := range []string{one.Task.ID, two.Task.ID, other.ID} {
		w.exit(t, 0)
		w.begins(t, id)
		require.Equal(t, id != other.ID, w.taskRecord(t, id).Continue)
	}
	require.Equal(t, api.TaskEnded, w.taskRecord(t, first.ID).State)
}

func TestATextToAProgramThatIsNoTaskIsTyped(t *testing.T) {
	w := sayWorld(t)
	_, err := w.Start(t.Context(), "a1", false)
	require.NoError(t, err)
	r := w.say(t, "hello")
	require.Equal(t, api.SayTyped, r.Task.Said.Way)
	require.Equal(t, "typed into the program of agent a1", r.Message)
	require.Equal(t, []string{"hello"}, w.k.received["a1"])
	require.Equal(t, api.TaskSaid, w.lastOf(t).Via)
}

// A daemon that is restarted delivers what was said to the one before, once.
func TestATextIsDeliveredOnceAcrossARestart(t *testing.T) {
	w := sayWorld(t)
	_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "first"})
	require.NoError(t, err)
	said := w.say(t, "and then")
	w, _ = w.next(t)
	w.continuing()
	require.Equal(t, api.TaskQueued, w.taskRecord(t, said.Task.ID).State)
	w.exit(t, 0)
	w.begins(t, said.Task.ID)
	require.Equal(t, "user:1000", w.taskRecord(t, said.Task.ID).Said.By)
	w.exit(t, 0)
	w, _ = w.next(t)
	w.continuing()
	all, err := w.Tasks("a1")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, api.TaskEnded, all[1].State)
}

func TestTextsThatAreRefused(t *testing.T) {
	w := sayWorld(t)
	for text, says := range map[string]string{
		"": "text has 0 bytes", " \n": "text has 2 bytes", strings.Repeat("x", api.MaxSaid+1): "text has 65537 bytes",
		"a\xff": "must be UTF-8", "a\x1b[2J": "control character U+001B at byte 1", "\u009bx": "control character U+009B at byte 0", "a\x00": "U+0000",
	} {
		_, err := w.Say(t.Context(), "user:0", "a1", api.SayRequest{Text: text})
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
		require.ErrorContains(t, err, says)
		require.NotEmpty(t, api.AsError(err).Hint)
	}
	_, err := w.Say(t.Context(), "user:0", "nobody", api.SayRequest{Text: "x"})
	require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
	_, err = w.Run(t.Context(), "a1", api.RunRequest{Prompt: "first"})
	require.NoError(t, err)
	for range api.MaxSaidWaiting {
		w.say(t, "x\n\ty")
	}
	_, err = w.Say(t.Context(), "user:0", "a1", api.SayRequest{Text: "one too many"})
	require.Equal(t, api.CodeQuota, api.CodeOf(err))
	require.Contains(t, api.AsError(err).Hint, "polisctl tasks cancel")
	_, err = w.Remove(t.Context(), "a1", true, false)
	require.NoError(t, err)
	_, err = w.Say(t.Context(), "user:0", "a1", api.SayRequest{Text: "x"})
	require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
}
