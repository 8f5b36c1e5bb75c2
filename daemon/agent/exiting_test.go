package agent

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// moment is how long a test waits to see that something does not happen.
const moment = 100 * time.Millisecond

// answered reports whether ch has an answer within a moment.
func answered(ch <-chan error) (error, bool) {
	select {
	case err := <-ch:
		return err, true
	case <-time.After(moment):
		return nil, false
	}
}

// TestTheNextOperationWaitsForAnEndedTask: from the moment when its record says that it has ended, a caller that
// reads it can give the next task, start or remove the agent.
func TestTheNextOperationWaitsForAnEndedTask(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(ctx context.Context, w *world) error
		want api.Status
	}{
		"run": {func(ctx context.Context, w *world) error {
			_, err := w.Run(ctx, "a1", api.RunRequest{Prompt: "next"})
			return err
		}, api.StatusRunning},
		"run with variables": {func(ctx context.Context, w *world) error {
			_, err := w.Run(ctx, "a1", api.RunRequest{Prompt: "next", Queue: true, Env: map[string]string{"A": "b"}})
			return err
		}, api.StatusRunning},
		"start": {func(ctx context.Context, w *world) error {
			_, err := w.Start(ctx, "a1", false)
			return err
		}, api.StatusRunning},
		"remove": {func(ctx context.Context, w *world) error {
			_, err := w.Remove(ctx, "a1", false, false)
			return err
		}, noState},
	} {
		t.Run(name, func(t *testing.T) {
			w, first := tasked(t, t.TempDir())
			defer w.Close()
			w.ExitTime = time.Millisecond // is for programs that continue: to commit and to measure can take longer
			done := make(chan error, 1)
			early := false
			var once sync.Once
			atEnd := func() {
				ended, err := w.Task(t.Context(), first.ID, false)
				require.NoError(t, err)
				require.Equal(t, api.TaskEnded, ended.State, "it is known")
				go func() { done <- c.do(t.Context(), w) }()
				_, early = answered(done)
			}
			w.Crash = func(step string) {
				if step == "task:ended" {
					once.Do(atEnd)
				}
			}
			w.exit(t, 0)
			require.False(t, early, "it had an answer while the agent was Running")
			require.NoError(t, <-done)
			if c.want != noState {
				require.Equal(t, c.want, w.agent(t).status(w.Manager))
			}
		})
	}
}

// TestATaskThatIsQueuedDoesNotWait: it has its turn when the program has exited.
func TestATaskThatIsQueuedDoesNotWait(t *testing.T) {
	w, _ := tasked(t, t.TempDir())
	defer w.Close()
	w.says(t, wire.TaskDone{By: api.EndDone})
	next, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "next", Queue: true})
	require.NoError(t, err)
	require.Equal(t, api.TaskQueued, next.State)
}

// TestWaitingForATaskIncludesItsProgram, which can continue after it has reported the end: a caller that waited
// for the task can give the next one.
func TestWaitingForATaskIncludesItsProgram(t *testing.T) {
	w, first := tasked(t, t.TempDir())
	defer w.Close()
	no := false
	_, err := w.Set(t.Context(), "a1", api.SetRequest{AutoMerge: &no})
	require.NoError(t, err)
	w.says(t, wire.TaskDone{By: api.EndDone})
	require.True(t, w.lastOf(t).Final)

	waited := make(chan error, 1)
	go func() {
		_, err := w.Task(t.Context(), first.ID, true)
		waited <- err
	}()
	_, early := answered(waited)
	require.False(t, early, "its program runs")
	// A caller that waits does not wait for ever.
	short, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	_, err = w.Run(short, "a1", api.RunRequest{Prompt: "next"})
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	_, err = w.Task(short, first.ID, true)
	require.NoError(t, err)

	w.exit(t, 0)
	require.NoError(t, <-waited)
	_, err = w.Run(t.Context(), "a1", api.RunRequest{Prompt: "next"})
	require.NoError(t, err)
	_, err = w.Task(t.Context(), first.ID, true)
	require.NoError(t, err, "another task's program is not waited for")
}

// TestWaitingForATaskIncludesItsRecord, which can take longer than a program has to exit: what its program reported
// last is part of it.
func TestWaitingForATaskIncludesItsRecord(t *testing.T) {
	w, first := tasked(t, t.TempDir())
	defer w.Close()
	w.ExitTime = time.Millisecond
	no := false
	_, err := w.Set(t.Context(), "a1", api.SetRequest{AutoMerge: &no})
	require.NoError(t, err)
	waited, early := make(chan error, 1), false
	w.Crash = func(step string) {
		if step == "task:measured" {
			go func() {
				_, err := w.Task(t.Context(), first.ID, true)
				waited <- err
			}()
			_, early = answered(waited)
		}
	}
	w.exit(t, 0)
	require.False(t, early, "the agent was Running")
	require.NoError(t, <-waited)
	require.Equal(t, api.StatusIdle, w.agent(t).status(w.Manager))
}

// TestAStopDoesNotWaitForThoseWhoWait for the end of the same program.
func TestAStopDoesNotWaitForThoseWhoWait(t *testing.T) {
	w, _ := tasked(t, t.TempDir())
	defer w.Close()
	w.says(t, wire.TaskDone{By: api.EndDone})
	done := make(chan error, 1)
	go func() {
		_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "next"})
		done <- err
	}()
	_, early := answered(done)
	require.False(t, early)
	began := time.Now()
	_, err := w.Stop(t.Context(), "a1")
	require.NoError(t, err)
	require.NoError(t, <-done, "it is started for the task")
	require.Less(t, time.Since(began), exitTime/2)
}

// TestTheEndOfATaskIsAnnouncedWhenTheAgentIsIdle by the event.
func TestTheEndOfATaskIsAnnouncedWhenTheAgentIsIdle(t *testing.T) {
	w, _ := tasked(t, t.TempDir())
	defer w.Close()
	w.exit(t, 0)
	var order []string
	for _, e := range w.Events.Since(0) {
		switch {
		case e.Type == api.EventAgentStatus && e.Data["to"] == api.StatusIdle && e.Data["from"] == api.StatusRunning:
			order = append(order, "idle")
		case e.Type == api.EventTask && e.Data["state"] == api.TaskEnded:
			order = append(order, "ended")
		}
	}
	require.Equal(t, []string{"idle", "ended"}, order[max(0, len(order)-2):])
	require.Equal(t, 1, len(order)-len(slices.DeleteFunc(order, func(s string) bool { return s == "ended" })))
}

// TestAnEndThatComesLateLeavesTheNextTaskAlone: two find the end of a program, and one of them is slow.
func TestAnEndThatComesLateLeavesTheNextTaskAlone(t *testing.T) {
	w, _ := tasked(t, t.TempDir())
	defer w.Close()
	sh := fakeShim{w.k, "a1"}
	w.exit(t, 0)
	late, err := sh.Status(t.Context())
	require.NoError(t, err)
	next, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "next"})
	require.NoError(t, err)
	w.ended(w.agent(t), late)
	require.Equal(t, api.StatusRunning, w.agent(t).status(w.Manager))
	got, err := w.Task(t.Context(), next.ID, false)
	require.NoError(t, err)
	require.Equal(t, api.TaskRunning, got.State)
}

// slowShim does not answer the next queries of its state.
type slowShim struct {
	fakeShim
	misses *atomic.Int32
}

func (s slowShim) Status(ctx context.Context) (wire.Status, error) {
	if s.misses.Add(-1) >= 0 {
		return wire.Status{}, errInjected
	}
	return s.fakeShim.Status(ctx)
}

type slowShims struct {
	fakeShims
	misses *atomic.Int32
}

func (s slowShims) Dial(name string) Shim { return slowShim{fakeShim{s.k, name}, s.misses} }

// TestAnEndThatAShimReportsIsNotLost if the shim does not answer at once when it is queried about it.
func TestAnEndThatAShimReportsIsNotLost(t *testing.T) {
	for name, report := range map[string]func(t *testing.T, w *world, sh Shim){
		"exit": func(t *testing.T, w *world, sh Shim) { w.hear(w.ctx, sh, w.agent(t), api.Event{Type: wire.EventExit}) },
		"done": func(t *testing.T, w *world, sh Shim) { w.hear(w.ctx, sh, w.agent(t), api.Event{Type: wire.EventDone}) },
		"events missed": func(t *testing.T, w *world, sh Shim) {
			w.agent(t).last = 1
			w.hear(w.ctx, sh, w.agent(t), api.Event{Type: api.EventDenied, ID: 7})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, first := tasked(t, t.TempDir())
			defer w.Close()
			misses := &atomic.Int32{}
			misses.Store(3)
			w.k.mu.Lock()
			if name == "done" {
				w.k.done["a1"] = &wire.TaskDone{By: api.EndDone, At: time.Now()}
			} else {
				w.k.running["a1"], w.k.exits["a1"] = false, 0
			}
			w.k.mu.Unlock()
			report(t, w, slowShim{fakeShim{w.k, "a1"}, misses})
			got, err := w.Task(t.Context(), first.ID, false)
			require.NoError(t, err)
			require.Equal(t, api.TaskEnded, got.State)
			if name != "done" {
				require.Equal(t, api.StatusIdle, w.agent(t).status(w.Manager))
			}
		})
	}
}

// TestAStartThatIsNotConfirmedIsNotForgotten: a program that ended before its start was recorded does not leave
// its agent Running if the shim did not answer.
func TestAStartThatIsNotConfirmedIsNotForgotten(t *testing.T) {
	w, first := tasked(t, t.TempDir())
	defer w.Close()
	w.exit(t, 0)
	misses := &atomic.Int32{}
	w.Shims = slowShims{fakeShims{thing{w.k, "shim"}}, misses}
	started := false
	w.k.started = func(string, bool) { // as if it had exited at once, and the event had come first
		started = true
		w.k.running["a1"], w.k.exits["a1"] = false, 0
		misses.Store(2)
	}
	_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "quick"})
	require.NoError(t, err)
	require.True(t, started)
	require.Eventually(t, func() bool {
		return w.agent(t).status(w.Manager) == api.StatusIdle && w.lastOf(t).ID != first.ID && w.lastOf(t).State == api.TaskEnded
	}, 30*time.Second, time.Millisecond)
}
