package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// workers are the agents of a daemon, and what each was given.
type workers struct {
	tasks map[string][]string // prompts by agent
	added time.Time           // when all were
	err   error               // of Run
	limit map[string]bool     // agents whose rules withhold something
	model string              // of the last task that was given
}

func (w *workers) WorkModel(name string) string { return "model of " + name }

func (w *workers) ReadsAll(name string) bool { return !w.limit[name] }

func (w *workers) Statuses(string) map[string]api.Status {
	out := map[string]api.Status{}
	for name := range w.tasks {
		out[name] = api.StatusIdle
	}
	return out
}

func (w *workers) Added(name string) (time.Time, bool) {
	_, ok := w.tasks[name]
	return w.added, ok
}

func (w *workers) AddLike(_ context.Context, _, name string) (api.Agent, error) {
	if _, ok := w.tasks[name]; ok {
		return api.Agent{}, api.Errorf(api.CodeAgentExists, "agent %s exists", name)
	}
	w.tasks[name] = nil
	return api.Agent{Name: name}, nil
}

func (w *workers) GivenTask(name, prompt string) (string, error) {
	for i, p := range w.tasks[name] {
		if p == prompt {
			return fmt.Sprintf("%s.%d", name, i+1), nil
		}
	}
	return "", nil
}

func (w *workers) Run(_ context.Context, name string, req api.RunRequest) (api.Task, error) {
	if w.err != nil {
		return api.Task{}, w.err
	}
	w.tasks[name], w.model = append(w.tasks[name], req.Prompt), req.Model
	return api.Task{ID: fmt.Sprintf("%s.%d", name, len(w.tasks[name]))}, nil
}

// failed is a book in which the request of agent a has failed, and what gives it to an agent.
func failed(t *testing.T, mode string) (*Reworker, *workers, *[]api.Event) {
	b := &FlowBook{}
	b.Sync([]api.QueueEntry{flowEntry("a", "a.1")}, "main", now)
	b.Landed("a.1", api.QueueOutcome{Code: api.CodeMergeConflict, Paths: []string{"x"}}, false, mode, prompt, now)
	as, evs := &workers{tasks: map[string][]string{"a": nil}}, &[]api.Event{}
	return &Reworker{Workspace: "w", Book: b, Agents: as, Save: func() error { return nil }, Publish: func(e api.Event) { *evs = append(*evs, e) },
		Halted: func() bool { return false }, Log: slog.New(slog.DiscardHandler)}, as, evs
}

func TestAReworkIsGivenOnce(t *testing.T) {
	w, as, evs := failed(t, api.ReworkNew)
	w.Due(t.Context())
	w.Due(t.Context())
	require.Len(t, as.tasks["a-rework"], 1)
	require.Equal(t, "model of a", as.model, "the model of the work that is continued")
	require.Len(t, *evs, 1)
	require.Equal(t, "request a.1: task a-rework.1 of agent a-rework resolves what kept it from being merged", (*evs)[0].Message)
	_, err := w.Begin(t.Context(), "a", false)
	require.Equal(t, api.CodeBadState, api.CodeOf(err), "it has started")
	_, err = w.Begin(t.Context(), "b", false)
	require.Equal(t, api.CodeBadState, api.CodeOf(err), "it has no failed merge")
}

// A daemon dies after each save: the next one gives the task to the same agent, once.
func TestAReworkIsGivenOnceAcrossCrashes(t *testing.T) {
	for dies := 1; dies <= 3; dies++ {
		w, as, _ := failed(t, api.ReworkNew)
		saves, saved := 0, w.Book.Signals()
		w.Save = func() error {
			if saves++; saves == dies {
				return errors.New("the daemon dies")
			}
			saved = w.Book.Signals()
			return nil
		}
		w.Due(t.Context())
		next := &FlowBook{}
		next.Load(saved)
		w.Book, w.Save = next, func() error { return nil }
		w.Due(t.Context())
		require.Len(t, as.tasks, 2, "death %d", dies)
		require.Len(t, as.tasks["a-rework"], 1, "death %d", dies)
		require.Equal(t, api.ReworkStarted, next.Signals()[0].Rework.State)
	}
}

func TestAReworkThatCannotStartIsOfferedAgain(t *testing.T) {
	w, as, evs := failed(t, api.ReworkOffer)
	w.Due(t.Context())
	require.Empty(t, *evs, "nobody wants it yet")
	as.err = errors.New("no room")
	_, err := w.Begin(t.Context(), "a", true)
	require.ErrorContains(t, err, "no room")
	r := w.Book.Signals()[0].Rework
	require.Equal(t, api.ReworkOffered, r.State)
	require.Contains(t, r.Error, "no room")
	as.err = nil
	s, err := w.Begin(t.Context(), "a", true)
	require.NoError(t, err)
	require.Equal(t, "a", s.Rework.Agent, "the agent itself")
	require.Len(t, as.tasks["a"], 1)

	w, _, evs = failed(t, api.ReworkNew)
	w.Halted = func() bool { return true }
	w.Due(t.Context())
	require.Empty(t, *evs)
}

// The agent of a failed request was removed, and another one got its name: it does nothing for that
// request.
func TestAReworkIsNotGivenForAnotherAgentOfTheName(t *testing.T) {
	for _, mode := range []string{api.ReworkNew, api.ReworkSame} {
		w, as, evs := failed(t, mode)
		as.added = now.Add(time.Second)
		w.Due(t.Context())
		require.Equal(t, map[string][]string{"a": nil}, as.tasks)
		require.Empty(t, *evs)
		r := w.Book.Signals()[0].Rework
		require.Equal(t, api.ReworkOffered, r.State)
		require.Contains(t, r.Error, "was removed")
		_, err := w.Begin(t.Context(), "a", mode == api.ReworkSame)
		require.Equal(t, api.CodeBadState, api.CodeOf(err), "that agent has no failed merge")
		delete(as.tasks, "a")
		_, err = w.Begin(t.Context(), "a", false)
		require.Equal(t, api.CodeBadState, api.CodeOf(err))
		require.Empty(t, as.tasks)
	}
}

func TestTheNamesOfReworks(t *testing.T) {
	w, as, _ := failed(t, api.ReworkNew)
	s := w.Book.Signals()[0]
	for _, want := range []string{"a-rework", "a-rework2", "a-rework3"} {
		got, err := w.reworker(s, false)
		require.NoError(t, err)
		require.Equal(t, want, got)
		as.tasks[got] = nil
	}
	for n := range maxReworkNames {
		as.tasks[fmt.Sprint("a-rework", n+1)] = nil
	}
	_, err := w.reworker(s, false)
	require.Equal(t, api.CodeQuota, api.CodeOf(err))
	require.Equal(t, "polisctl agents remove removes the agents that are over", api.AsError(err).Hint)
	delete(as.tasks, "a-rework7") // as the hint says
	got, err := w.reworker(s, false)
	require.NoError(t, err)
	require.Equal(t, "a-rework7", got)
	s.Agent = strings.Repeat("a", 200)
	_, err = w.reworker(s, false)
	require.Error(t, err, "a name that is too long is not shortened")
}
