package agent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// Whatever happens to an ephemeral agent, and wherever the daemon dies: work that exists only in it
// is never removed by the patrol (seed 004, "Auto-Nuke Safety Protocol").
func TestWorkThatIsOnlyThereIsNeverRemoved(t *testing.T) {
	dir := t.TempDir()
	removed, kept := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		w := newWorld(dir)
		w.ExitTime = time.Millisecond // some programs here never exit
		// life ends the manager and starts the next one on the same kernel.
		again := func() {
			w.Close()
			n, _ := w.next(t)
			w = n
			w.ExitTime = time.Millisecond
		}
		add := func() {
			_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}}, Ephemeral: true})
			require.NoError(rt, err)
		}
		// only reports whether the agent has work that is nowhere else.
		only := func() bool {
			w.k.mu.Lock()
			defer w.k.mu.Unlock()
			return w.k.dirty["a1"] || w.k.commits["a1"] > 0
		}
		there := func() bool { _, err := w.lookup("a1"); return err == nil }
		land := func() {
			a, err := w.lookup("a1")
			if err != nil || !a.WS.Queue.Waits("a1") {
				return
			}
			_, err = a.WS.Queue.Remove("a1")
			require.NoError(rt, err)
			w.k.mu.Lock()
			w.k.commits["a1"] = 0
			w.k.mu.Unlock()
			_, err = w.Landed(ctx, api.QueueEntry{Agent: "a1", By: "task"}, api.QueueOutcome{MergeCommitSHA: "c"}, nil)
			require.NoError(rt, err)
		}
		add()
		if rapid.Bool().Draw(rt, "its task has failed") {
			_, err := w.Run(ctx, "a1", api.RunRequest{Prompt: "work"})
			require.NoError(rt, err)
			w.exit(rt, 1)
			land()
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 13).Draw(rt, "what") {
			case 0:
				if there() {
					_, _ = w.Run(ctx, "a1", api.RunRequest{Prompt: "work"})
				}
			case 1:
				if there() {
					w.exit(rt, rapid.IntRange(0, 1).Draw(rt, "code"))
				}
			case 2:
				if there() {
					w.says(rt, wire.TaskDone{By: api.EndDone, CleanupStatus: rapid.SampledFrom([]api.CleanupStatus{"", api.CleanupClean, api.CleanupStash}).Draw(rt, "reports")})
				}
			case 3:
				if there() {
					w.k.mu.Lock()
					w.k.dirty["a1"] = rapid.Bool().Draw(rt, "dirty")
					w.k.mu.Unlock()
				}
			case 4:
				if there() {
					w.k.mu.Lock()
					w.k.commits["a1"] = rapid.IntRange(0, 1).Draw(rt, "commits")
					w.k.mu.Unlock()
				}
			case 5: // its merge lands
				land()
			case 6:
				again()
			case 7:
				if !there() {
					add() // the name is another agent's now
				}
			default:
				before := only()
				s, _, over := w.WorkOver(ctx, "a1")
				if !over {
					break
				}
				if rapid.IntRange(0, 3).Draw(rt, "it writes meanwhile") == 0 {
					w.k.mu.Lock()
					w.k.dirty["a1"] = true
					w.k.mu.Unlock()
					before = true
				}
				died, _ := w.crashing(rapid.IntRange(0, 9).Draw(rt, "dies at"), func() { _, _ = w.CleanUp(ctx, s, false) })
				n, _ := w.next(t)
				w = n
				if there() {
					kept++
				} else {
					removed++
				}
				if before && !there() {
					rt.Fatalf("it was removed with work that was only there (died at %q)", died)
				}
			}
			if !there() && only() {
				rt.Fatal("its work is nowhere")
			}
		}
		w.Close()
	})
	t.Logf("%d removals, %d not", removed, kept)
	require.NotZero(t, removed, "the test sees removals")
	require.NotZero(t, kept, "the test sees agents that stay")
}

// The patrol freezes what it is about to stop and checks once more: an agent that a person begins to
// use just then is thawed, and continues; one that cannot be frozen is left alone.
func TestAnAgentIsFrozenBeforeItsCleanUp(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t.TempDir())
	defer func() { w.Close() }()
	_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}}, Ephemeral: true})
	require.NoError(t, err)
	_, err = w.Run(ctx, "a1", api.RunRequest{Prompt: "work"})
	require.NoError(t, err)
	w.exit(t, 1)
	s, _, over := w.WorkOver(ctx, "a1")
	require.True(t, over)
	generation := s.Generation

	w.k.mu.Lock()
	w.k.freezing = func(name string) { w.k.sessions = map[string]int{name: 1} }
	w.k.mu.Unlock()
	c, err := w.CleanUp(ctx, s, false)
	require.ErrorContains(t, err, "is not what it was")
	require.False(t, c.Done)
	alive := func() bool {
		w.k.mu.Lock()
		defer w.k.mu.Unlock()
		require.Empty(t, w.k.frozen)
		return w.k.set("shim")["a1"]
	}
	require.True(t, alive(), "it was not stopped, and is thawed")

	w.k.mu.Lock()
	w.k.freezing, w.k.sessions, w.k.fail = nil, nil, "freeze"
	w.k.mu.Unlock()
	_, err = w.CleanUp(ctx, s, false)
	require.ErrorIs(t, err, errInjected)
	require.True(t, alive())

	s, _, over = w.WorkOver(ctx, "a1")
	require.True(t, over)
	require.Equal(t, generation, s.Generation, "it is the same incarnation")
	c, err = w.CleanUp(ctx, s, false)
	require.NoError(t, err)
	require.True(t, c.Done)
}
