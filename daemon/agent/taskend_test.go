package agent

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
)

// tasked is a world with an agent that works on a task.
func tasked(t *testing.T, dir string) (*world, api.Task) {
	w := newWorld(dir)
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}}})
	require.NoError(t, err)
	task, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "work"})
	require.NoError(t, err)
	require.Equal(t, api.OutcomeRunning, task.Outcome)
	return w, task
}

func (w *world) agent(t require.TestingT) *Agent {
	a, err := w.lookup("a1")
	require.NoError(t, err)
	return a
}

// exit has the agent's command end; says has the agent say that it is done.
func (w *world) exit(t require.TestingT, code int) {
	w.k.mu.Lock()
	w.k.running["a1"], w.k.exits["a1"] = false, code
	w.k.mu.Unlock()
	w.hear(w.ctx, fakeShim{w.k, "a1"}, w.agent(t), api.Event{Type: "shim:exit"})
}

func (w *world) says(t require.TestingT, d wire.TaskDone) {
	d.At = time.Now()
	w.k.mu.Lock()
	if w.k.done["a1"] == nil {
		w.k.done["a1"] = &d
	}
	w.k.mu.Unlock()
	w.hear(w.ctx, fakeShim{w.k, "a1"}, w.agent(t), api.Event{Type: "shim:done"})
}

func (w *world) lastOf(t require.TestingT) api.Task {
	all, err := w.Tasks("a1")
	require.NoError(t, err)
	return all[len(all)-1]
}

func (w *world) queued() bool {
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	return w.k.set("queue")["a1"]
}

func TestATaskEndsByExitOrByTheAgentsWord(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(t *testing.T, w *world)
		by     api.TaskEnd
		want   api.TaskOutcome
		queued bool
	}{
		"exit 0":                {func(t *testing.T, w *world) { w.exit(t, 0) }, api.EndExit, api.OutcomeWaiting, true},
		"exit 3":                {func(t *testing.T, w *world) { w.exit(t, 3) }, api.EndExit, api.OutcomeFailed, false},
		"polisctl done":         {func(t *testing.T, w *world) { w.says(t, wire.TaskDone{By: api.EndDone}) }, api.EndDone, api.OutcomeWaiting, true},
		"task_complete":         {func(t *testing.T, w *world) { w.says(t, wire.TaskDone{By: api.EndComplete}) }, api.EndComplete, api.OutcomeWaiting, true},
		"polisctl done, failed": {func(t *testing.T, w *world) { w.says(t, wire.TaskDone{By: api.EndDone, Failed: true}) }, api.EndDone, api.OutcomeFailed, false},
		"done, then exit 3": {func(t *testing.T, w *world) {
			w.says(t, wire.TaskDone{By: api.EndDone})
			w.exit(t, 3)
		}, api.EndDone, api.OutcomeWaiting, true},
		"done that is known only at the exit": {func(t *testing.T, w *world) {
			w.k.done["a1"] = &wire.TaskDone{By: api.EndDone, At: time.Now()}
			w.exit(t, 3)
		}, api.EndDone, api.OutcomeWaiting, true},
		"stop": {func(t *testing.T, w *world) {
			_, err := w.Stop(t.Context(), "a1")
			require.NoError(t, err)
		}, api.EndStop, api.OutcomeStopped, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, task := tasked(t, t.TempDir())
			defer w.Close()
			c.end(t, w)
			got := w.lastOf(t)
			require.Equal(t, task.ID, got.ID)
			require.Equal(t, c.by, got.EndedBy)
			require.Equal(t, c.want, got.Outcome)
			require.Equal(t, c.queued, w.queued())
			a, err := w.Get(t.Context(), "a1")
			require.NoError(t, err)
			require.Equal(t, got.Result, a.Task.Result)
		})
	}
}

// TestATaskIsQueuedOnceHoweverItEnds: its ends come at the same time, and the
// branch is put in the queue at most once.
func TestATaskIsQueuedOnceHoweverItEnds(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		w, _ := tasked(t, dir)
		defer w.Close()
		sub, adds := w.WS(rt), 0
		sub.Queue = countingQueue{fakeQueue{w.Manager, w.k}, &adds}
		var wg sync.WaitGroup
		for range rapid.IntRange(1, 4).Draw(rt, "ends") {
			by := rapid.SampledFrom([]string{"exit", "done"}).Draw(rt, "by")
			wg.Go(func() {
				if by == "exit" {
					w.exit(rt, 0)
				} else {
					w.says(rt, wire.TaskDone{By: api.EndDone})
				}
			})
		}
		wg.Wait()
		require.Equal(rt, 1, adds)
		require.Equal(rt, api.OutcomeWaiting, w.lastOf(rt).Outcome)
	})
}

type countingQueue struct {
	fakeQueue
	adds *int
}

func (q countingQueue) Add(e api.QueueEntry) (api.QueueEntry, error) {
	q.k.mu.Lock()
	*q.adds++
	q.k.mu.Unlock()
	return q.fakeQueue.Add(e)
}

func (w *world) WS(t require.TestingT) *Workspace {
	ws, err := w.Workspace("w")
	require.NoError(t, err)
	return ws
}

// TestAManagerThatDiesAtTheEndOfATask: whatever step it dies at, the next one has
// the end that was first, and queues the branch.
func TestAManagerThatDiesAtTheEndOfATask(t *testing.T) {
	for _, step := range []string{"task:ended", "task:measured"} {
		t.Run(step, func(t *testing.T) {
			w, task := tasked(t, t.TempDir())
			w.k.commits["a1"] = 2
			w.Crash = func(at string) {
				if at == step {
					panic(death{at})
				}
			}
			require.Panics(t, func() { w.exit(t, 0) })
			w.Close()
			require.False(t, w.queued())
			n, _ := w.next(t)
			got := n.lastOf(t)
			require.Equal(t, task.ID, got.ID)
			require.Equal(t, api.OutcomeWaiting, got.Outcome)
			require.Equal(t, 2, got.Commits)
			require.True(t, n.queued())
		})
	}
}

// TestWhatAnAgentReportedOutlivesItsShim: a task that its agent ended itself has that end, at that time,
// if the shim dies before polisd has recorded it; also if polisd died before it had recorded the start.
func TestWhatAnAgentReportedOutlivesItsShim(t *testing.T) {
	at := time.Now().Add(-time.Hour).UTC()
	for name, c := range map[string]struct {
		of        string // the task that the saved end is of
		forgotten bool   // the start was not recorded
		away      bool   // polisd is away when the shim dies
		by        api.TaskEnd
	}{
		"while polisd runs":                {of: "a1.1", by: api.EndDone},
		"while polisd is away":             {of: "a1.1", away: true, by: api.EndDone},
		"whose start was not recorded":     {of: "a1.1", away: true, forgotten: true, by: api.EndDone},
		"what was saved is another task's": {of: "a1.2", away: true, by: api.EndLost},
		"nothing was saved":                {by: api.EndLost},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := tasked(t, t.TempDir())
			if c.of != "" {
				require.NoError(t, task.KeepDone(w.WS(t).Root.Logs("a1"), "other.7", wire.TaskDone{By: api.EndDone}), "only the last one counts")
				require.NoError(t, task.KeepDone(w.WS(t).Root.Logs("a1"), c.of, wire.TaskDone{At: at, By: api.EndDone, Message: "reported", CleanupStatus: api.CleanupStash}))
			}
			die := func() {
				w.k.mu.Lock()
				delete(w.k.set("shim"), "a1")
				w.k.mu.Unlock()
			}
			if c.away {
				kept := slices.Clone(w.mem.kept)
				w.Close()
				w.mem.kept = kept
				if c.forgotten {
					kept[0].InTask, kept[0].Task, kept[0].Status = false, "", api.StatusIdle
				}
				die()
				w, _ = w.next(t)
			} else {
				die()
				a := w.agent(t)
				w.reapShim(t.Context(), a, a.Kept.Generation)
			}
			defer w.Close()
			got := w.lastOf(t)
			require.Equal(t, "a1.1", got.ID)
			require.Equal(t, c.by, got.EndedBy)
			require.Equal(t, c.by == api.EndDone, w.queued())
			if c.by == api.EndDone {
				require.Equal(t, at, *got.Ended)
				require.Equal(t, []any{"reported", api.CleanupStash}, []any{got.Message, got.CleanupStatus})
			}
		})
	}
}

// TestAnExitOutlivesItsShim: a task whose program has exited has that end, its use and its steps, if the
// shim dies before polisd has recorded it.
func TestAnExitOutlivesItsShim(t *testing.T) {
	at := time.Now().Add(-time.Hour).UTC()
	for name, c := range map[string]struct {
		code      int
		oom       string
		done      bool // the agent had reported the end before
		forgotten bool // the start was not recorded
		away      bool // polisd is away when the shim dies
		of        string
		want      api.TaskOutcome
		reason    string
	}{
		"well":                                {of: "a1.1", want: api.OutcomeWaiting},
		"well, polisd is away":                {of: "a1.1", away: true, want: api.OutcomeWaiting, reason: "exit code 0"},
		"failed, polisd is away":              {of: "a1.1", code: 7, away: true, want: api.OutcomeFailed, reason: "exit code 7"},
		"killed for memory, polisd is away":   {of: "a1.1", code: 137, oom: "too much", away: true, want: api.OutcomeKilled, reason: "exit code 137"},
		"done before, then failed":            {of: "a1.1", code: 7, done: true, away: true, want: api.OutcomeWaiting},
		"its start was not recorded":          {of: "a1.1", code: 7, forgotten: true, away: true, want: api.OutcomeFailed},
		"the exit is that of an earlier task": {of: "a1.0", away: true, want: api.OutcomeLost, reason: "with the daemon's stop"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := tasked(t, t.TempDir())
			w.k.commits["a1"] = 1
			dir := w.WS(t).Root.Logs("a1")
			if c.done {
				require.NoError(t, task.KeepDone(dir, "a1.1", wire.TaskDone{At: at, By: api.EndDone}))
			}
			require.NoError(t, task.KeepExit(dir, c.of, wire.TaskExit{At: at, Code: c.code, OOM: c.oom, Output: api.OutputRange{From: 1, To: 9}, Use: &api.TaskUse{WritesDenied: 3},
				Steps: wire.Steps{Task: c.of, Steps: []api.Step{{Kind: api.StepCommand, Text: "make"}}, Total: 1}, Refused: []api.WhyEntry{{Path: "x"}}}))
			die := func() {
				w.k.mu.Lock()
				delete(w.k.set("shim"), "a1")
				w.k.mu.Unlock()
			}
			if c.away {
				kept := slices.Clone(w.mem.kept)
				w.Close()
				w.mem.kept = kept
				if c.forgotten {
					kept[0].InTask, kept[0].Task, kept[0].Status = false, "", api.StatusIdle
				}
				die()
				w, _ = w.next(t)
			} else {
				die()
				a := w.agent(t)
				w.reapShim(t.Context(), a, a.Kept.Generation)
			}
			defer w.Close()
			got := w.lastOf(t)
			require.Equal(t, c.want, got.Outcome, got.Result)
			require.Equal(t, c.want == api.OutcomeWaiting, w.queued())
			require.Contains(t, w.agent(t).Copy().StatusReason, c.reason)
			if c.want == api.OutcomeLost {
				require.Nil(t, got.ExitCode)
				return
			}
			require.Equal(t, at, *got.Ended)
			require.Equal(t, []any{int64(3), 1, "x"}, []any{got.Use.WritesDenied, got.StepCount, got.Refused[0].Path})
			if !c.done {
				require.Equal(t, api.EndExit, got.EndedBy)
				require.Equal(t, []any{c.code, int64(9)}, []any{*got.ExitCode, got.Output.To})
			}
		})
	}
}

// TestADaemonThatDiesWhileATaskBegins: a task that its shim works on continues, one that never
// began ends as lost.
func TestADaemonThatDiesWhileATaskBegins(t *testing.T) {
	w := newWorld(t.TempDir())
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}}})
	require.NoError(t, err)
	w.Crash = func(at string) {
		if at == "task:noted" {
			panic(death{at})
		}
	}
	require.Panics(t, func() {
		_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "work"})
		require.NoError(t, err)
	})
	w.Close()
	n, _ := w.next(t)
	require.Equal(t, "lost: polisd ended while it began", n.lastOf(t).Result)
	n.Close()

	w, task := tasked(t, t.TempDir())
	kept := w.mem.kept
	for i := range kept {
		kept[i].InTask, kept[i].Task, kept[i].Status = false, "", api.StatusIdle // as if it died before it saved
	}
	w.Close()
	w.mem.kept = kept
	w.k.running["a1"], w.k.exits["a1"] = false, 0
	n, _ = w.next(t)
	require.Equal(t, task.ID, n.lastOf(t).ID)
	require.Equal(t, api.OutcomeWaiting, n.lastOf(t).Outcome)
	require.True(t, n.queued())
}

func TestTheQueueUpdatesTheTask(t *testing.T) {
	w, task := tasked(t, t.TempDir())
	defer w.Close()
	w.exit(t, 0)
	conflict := api.Errorf(api.CodeMergeConflict, "conflict").With("paths", []string{"f"})
	e := api.QueueEntry{Agent: "a1", By: "task", Tasks: []string{task.ID}}
	_, err := w.Landed(t.Context(), e, api.QueueOutcome{Paths: []string{"f"}}, conflict)
	require.NoError(t, err)
	require.Equal(t, "conflict: f", w.lastOf(t).Result)
	// A person merges it by hand: the task's work is home.
	_, err = w.Landed(t.Context(), api.QueueEntry{Agent: "a1", By: "user", AddedAt: time.Now().Add(time.Minute)}, api.QueueOutcome{MergeCommitSHA: "0123456789"}, nil)
	require.NoError(t, err)
	require.Equal(t, "merged as 0123456", w.lastOf(t).Result)
}

// TestTasksWaitForTheirTurn: while one runs others are kept in their order, and
// one begins when the one before it has ended.
func TestTasksWaitForTheirTurn(t *testing.T) {
	w, one := tasked(t, t.TempDir())
	defer w.Close()
	_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "no queue"})
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	var ids []string
	for _, p := range []string{"two", "three"} {
		task, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: p, Queue: true})
		require.NoError(t, err)
		require.Equal(t, api.TaskQueued, task.State)
		ids = append(ids, task.ID)
	}
	a, err := w.Get(t.Context(), "a1")
	require.NoError(t, err)
	require.Equal(t, one.ID, a.Task.ID)
	require.Equal(t, 2, a.Task.Queued)
	for _, id := range ids {
		w.exit(t, 1)
		require.Eventually(t, func() bool {
			task, err := w.records(w.agent(t)).Get(id)
			return err == nil && task.State == api.TaskRunning && w.agent(t).status(w.Manager) == api.StatusRunning
		}, 10*time.Second, time.Millisecond)
	}
}

// What is merged needs no protection: an agent that is Idle and has nothing else gives its leases
// back. One that works, or has more work, keeps them.
func TestAMergedAgentReleasesItsLeases(t *testing.T) {
	merged := api.QueueOutcome{MergeCommitSHA: "0123456789"}
	for name, c := range map[string]struct {
		set      func(w *world)
		out      api.QueueOutcome
		failed   error
		released bool
	}{
		"all is merged":    {func(*world) {}, merged, nil, true},
		"nothing to merge": {func(*world) {}, api.QueueOutcome{}, api.Errorf(api.CodeNothingToMerge, "nothing"), true},
		"conflict":         {func(*world) {}, api.QueueOutcome{}, api.Errorf(api.CodeMergeConflict, "conflict"), false},
		"dirty":            {func(w *world) { w.k.dirty["a1"] = true }, merged, nil, false},
		"at work": {func(w *world) {
			_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "more"})
			require.NoError(t, err)
		}, merged, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, task := tasked(t, t.TempDir())
			defer w.Close()
			w.exit(t, 0)
			c.set(w)
			const op = "release idle leases of a1"
			w.k.mu.Lock()
			w.k.fail = op // cleared when it happens
			w.k.mu.Unlock()
			_, err := w.Landed(t.Context(), api.QueueEntry{Agent: "a1", By: "task", Tasks: []string{task.ID}}, c.out, c.failed)
			require.NoError(t, err)
			w.k.mu.Lock()
			defer w.k.mu.Unlock()
			require.Equal(t, c.released, w.k.fail != op)
		})
	}
}

// TestATaskThatEndsTwiceAtOnceIsCommittedOnce: the event of its end is processed while the start of its
// program, which ended at once, finds the end as well.
func TestATaskThatEndsTwiceAtOnceIsCommittedOnce(t *testing.T) {
	w := newWorld(t.TempDir())
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"true"}}})
	require.NoError(t, err)
	given, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "x", Commit: true})
	require.NoError(t, err)
	a, err := w.lookup("a1")
	require.NoError(t, err)
	var commits atomic.Int32
	adding, second := make(chan struct{}), make(chan struct{})
	w.k.mu.Lock()
	w.k.dirty["a1"] = true
	w.k.mu.Unlock()
	w.k.onRun = func(command []string) string {
		switch command[1] {
		case "add":
			if slices.Contains(command, "-A") && commits.Add(1) == 1 {
				close(adding)
				<-second
			}
		case "commit":
			w.k.mu.Lock()
			delete(w.k.dirty, "a1")
			w.k.commits["a1"] = 1
			w.k.mu.Unlock()
		case "diff":
			if slices.Contains(command, "--cached") {
				return "file\x00"
			}
		}
		return ""
	}
	zero := 0
	end := task.End{By: api.EndExit, Exit: &zero}
	var both sync.WaitGroup
	both.Go(func() { w.endTask(a, end) })
	<-adding
	both.Go(func() { w.endTask(a, end) })
	time.AfterFunc(100*time.Millisecond, func() { close(second) })
	both.Wait()
	got, err := w.Task(t.Context(), given.ID, false)
	require.NoError(t, err)
	require.EqualValues(t, 1, commits.Load())
	require.Equal(t, 1, got.Commits, got)
	require.Zero(t, got.Uncommitted, got)
}
