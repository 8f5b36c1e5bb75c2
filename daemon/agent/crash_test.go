package agent

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store"
)

// death is how a test ends a manager in the middle of something.
type death struct{ step string }

// crashing runs do and says at which step it died; "" if it did not. The
// manager is of no use after it.
func (w *world) crashing(at int, do func()) (died string, steps []string) {
	w.Crash = func(step string) {
		steps = append(steps, step)
		if len(steps) == at {
			panic(death{step})
		}
	}
	defer func() {
		if r := recover(); r != nil {
			d, ok := r.(death)
			if !ok {
				panic(r)
			}
			died = d.step
		}
		w.Close()
	}()
	do()
	return "", steps
}

// next is the daemon after it: on the same kernel, with the state as it was
// last written.
func (w *world) next(t *testing.T) (*world, *Report) {
	kept := slices.Clone(w.mem.kept)
	w.mem.fakePorts = newFakePorts(3001, 9999)
	n := newLife(w.dir, w.k, w.mem)
	t.Cleanup(n.Close)
	ws, err := n.Workspace("w")
	require.NoError(t, err)
	rep := &Report{}
	var there []Tree
	for name := range w.k.set("worktree") {
		there = append(there, Tree{Name: name})
	}
	n.Restore(t.Context(), ws, kept, there, rep)
	n.Sweep(t.Context(), rep)
	return n, rep
}

// TestAManagerThatDiesAtAnyStepIsHealed kills it between any two steps of
// every change. The next one has the agent whole or not at all, says what it healed,
// has lost nothing that was not saved, and can do the same change again.
func TestAManagerThatDiesAtAnyStepIsHealed(t *testing.T) {
	ctx := context.Background()
	add := api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sleep"}}, Ports: []int{3000}}
	for name, c := range map[string]struct {
		before func(t *testing.T, w *world)
		change func(w *world)
		gone   bool // what the change is for
		healed bool // half of it is reported as healed
	}{
		"add": {func(*testing.T, *world) {}, func(w *world) { _, _ = w.Add(ctx, add) }, false, true},
		"start": {func(t *testing.T, w *world) {
			_, err := w.Stop(ctx, "a1")
			require.NoError(t, err)
		}, func(w *world) { _, _ = w.Start(ctx, "a1", false) }, false, false},
		"stop":    {nil, func(w *world) { _, _ = w.Stop(ctx, "a1") }, false, false},
		"remove":  {nil, func(w *world) { _, _ = w.Remove(ctx, "a1", true, false) }, true, true},
		"discard": {nil, func(w *world) { _, _ = w.Discard(ctx, "a1", false) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for at := 1; ; at++ {
				w := newWorld(t.TempDir())
				_, err := w.Add(ctx, api.AddRequest{Name: "b1", BaseType: "custom"})
				require.NoError(t, err)
				if c.before == nil || name == "start" {
					_, err := w.Add(ctx, add)
					require.NoError(t, err)
				}
				if c.before != nil {
					c.before(t, w)
				}
				dirty := name != "add"
				if dirty {
					w.k.dirty["a1"] = true
				}
				step, _ := w.crashing(at, func() { c.change(w) })
				if step == "" {
					break // it has no more steps
				}
				seen[step] = true
				n, rep := w.next(t)
				require.Empty(t, rep.Errors, step)
				model := map[string]api.Status{"b1": api.StatusIdle}
				a, err := n.Get(ctx, "a1")
				there := err == nil
				if there {
					require.Contains(t, []api.Status{api.StatusIdle, api.StatusRunning, api.StatusStopped}, a.Status, step)
					model["a1"] = a.Status
				}
				n.check(t, model)
				require.False(t, c.gone && there, "a removal that was begun at %s is finished", step)
				if c.healed && step != "remove:forgotten" && !there {
					require.Len(t, rep.Healed, 1, "%s: %s", step, rep.Summary())
					require.Contains(t, rep.Healed[0], "a1: ")
				}
				require.Equal(t, dirty && there, w.k.dirty["a1"], "%s: unsaved work is there, or in the trash", step)
				require.Equal(t, dirty && !there, w.k.saved["a1"] != "", "%s: saved in the trash once", step)
				// And again, to its end.
				if c.gone || !there {
					_, err := n.Add(ctx, add)
					require.NoError(t, err, step)
				}
				c.change(n)
				_, err = n.Get(ctx, "a1")
				require.Equal(t, c.gone, err != nil, step)
			}
			for _, step := range map[string][]string{
				"add": {"add:noted", "up:worktree", "up:network", "up:shim"}, "start": {"up:worktree", "up:shim"}, "stop": {"down:shim"},
				"remove": {"remove:noted", "remove:stopped", "remove:saved", "remove:kept", "gone:network", "gone:worktree", "remove:branch", "remove:forgotten"},
			}[name] {
				require.True(t, seen[step], "it died at %v, and not at %s", seen, step)
			}
		})
	}
}

// TestAManagerThatDiesWhileItRestores: the agent is complete, or its work
// in the trash can be restored again.
func TestAManagerThatDiesWhileItRestores(t *testing.T) {
	ctx := context.Background()
	seen := map[string]bool{}
	for at := 1; ; at++ {
		w := newWorld(t.TempDir())
		_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", Ports: []int{3000}})
		require.NoError(t, err)
		w.k.dirty["a1"] = true
		_, err = w.Remove(ctx, "a1", true, false)
		require.NoError(t, err)
		step, _ := w.crashing(at, func() { _, _ = w.RestoreAgent(ctx, "a1", api.RestoreRequest{}) })
		if step == "" {
			break
		}
		seen[step] = true
		removed := slices.Clone(w.mem.removed)
		n, rep := w.next(t)
		require.Empty(t, rep.Errors, step)
		if _, err := n.Get(ctx, "a1"); err == nil {
			require.Equal(t, "restore:done", step)
			require.Empty(t, removed, "there once, not twice")
			n.check(t, map[string]api.Status{"a1": api.StatusIdle})
			continue
		}
		require.Contains(t, rep.Healed[0], "a1: was being restored", step)
		n.check(t, map[string]api.Status{})
		require.Len(t, removed, 1, step)
		ws, err := n.Workspace("w")
		require.NoError(t, err)
		ws.Removed = removed
		a, err := n.RestoreAgent(ctx, "a1", api.RestoreRequest{})
		require.NoError(t, err, step)
		require.Equal(t, 3000, a.PortMappings[0].Internal)
		n.check(t, map[string]api.Status{"a1": api.StatusIdle})
	}
	for _, step := range []string{"restore:noted", "restore:files", "up:worktree", "up:shim", "restore:done"} {
		require.True(t, seen[step], "it died at %v, and not at %s", seen, step)
	}
}

// TestAManagerThatDiesWhileItForks: the new agent is complete or not there, the other one is as it
// was, and nothing that was saved for the fork is left once the new agent is known.
func TestAManagerThatDiesWhileItForks(t *testing.T) {
	ctx := context.Background()
	seen := map[string]bool{}
	for at := 1; ; at++ {
		w := newWorld(t.TempDir())
		_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom"})
		require.NoError(t, err)
		step, _ := w.crashing(at, func() { _, _ = w.Fork(ctx, "a1", api.ForkRequest{Name: "a2"}) })
		if step == "" {
			break
		}
		seen[step] = true
		n, rep := w.next(t)
		require.Empty(t, rep.Errors, step)
		want := map[string]api.Status{"a1": api.StatusIdle}
		if step == "fork:done" {
			want["a2"] = api.StatusIdle
		} else if step != "fork:saved" { // then it is in the trash until its time is over
			require.Empty(t, n.k.things["snapshots"], step)
		}
		n.check(t, want)
	}
	for _, step := range []string{"fork:noted", "restore:files", "up:shim", "fork:done"} {
		require.True(t, seen[step], "it died at %v, and not at %s", seen, step)
	}
}

// Feature: multi-agent-workspaces, Property 22: Corrupted Worktree Handling
func TestACorruptWorktreeIsSkipped(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	ws, err := w.Workspace("w")
	require.NoError(t, err)
	kept := []store.Agent{
		{Name: "first", BaseType: "custom", Branch: "agent/first", Status: api.StatusIdle},
		{Name: "corrupt", BaseType: "custom", Branch: "agent/corrupt", Status: api.StatusRunning, PortMappings: []store.PortMap{{Internal: 3000, External: 3001, Protocol: "tcp"}}},
		{Name: "last", BaseType: "custom", Branch: "agent/last", Status: api.StatusIdle},
		{Name: "without", BaseType: "custom", Branch: "agent/without", Status: api.StatusIdle},
		{Name: "twice", BaseType: "custom", Branch: "agent/twice", Status: api.StatusStopped},
		{Name: "twice", BaseType: "custom", Branch: "agent/twice2", Status: api.StatusStopped},
	}
	for _, k := range kept {
		w.k.set("worktree")[k.Name], w.k.set("network")[k.Name] = true, true
	}
	w.k.dirty["corrupt"] = true
	there := append(trees("first", "last", "twice"), Tree{Name: "corrupt", Broken: errInjected}, Tree{Name: "stray", Broken: errInjected}, Tree{Name: "without", Broken: errInjected, Missing: true})
	rep := &Report{}
	w.Restore(t.Context(), ws, kept, there, rep)
	require.ElementsMatch(t, []string{"first", "last"}, rep.Restored)
	require.Len(t, rep.Skipped, 2)
	require.Len(t, rep.Dropped, 1)
	require.Contains(t, rep.Dropped[0], string(api.CodeWorktreeMissing))
	require.Len(t, rep.Errors, 1)
	require.Contains(t, rep.Errors[0], string(api.CodeReconcileConflict))
	a, err := w.Get(t.Context(), "corrupt")
	require.NoError(t, err)
	require.Equal(t, api.StatusError, a.Status)
	require.Contains(t, a.StatusReason, string(api.CodeWorktreeCorrupt))
	require.Equal(t, 3000, a.PortMappings[0].Internal)
	require.True(t, w.k.dirty["corrupt"], "nothing of it is touched")
	_, err = w.Run(t.Context(), "corrupt", api.RunRequest{Prompt: "continue"})
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
}

// Feature: multi-agent-workspaces, Property 21: Persistence Round-Trip
func TestWhatAStopKeepsAStartRestores(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t.TempDir())
	for i, r := range []api.AddRequest{
		{Name: "a1", BaseType: "custom", Ports: []int{3000, 8080}, Branch: "topic/x", AgentSpec: api.AgentSpec{MemoryMB: 200, Command: []string{"a", "b"}}},
		{Name: "b1", BaseType: "custom"}, {Name: "c1", BaseType: "custom", AgentSpec: api.AgentSpec{Policy: &api.Policy{Read: []string{"**"}, Deny: []string{"secret/**"}}}},
	} {
		_, err := w.Add(ctx, r)
		require.NoError(t, err, i)
	}
	_, err := w.Start(ctx, "a1", false)
	require.NoError(t, err)
	_, err = w.Stop(ctx, "c1")
	require.NoError(t, err)
	before := w.List(ctx, "")
	require.NoError(t, w.StopAll(ctx))
	w.Close()
	n, rep := w.next(t)
	require.Empty(t, rep.Errors)
	after := n.List(ctx, "")
	require.Len(t, after, 3)
	before[0].Status, before[0].StatusReason = api.StatusIdle, after[0].StatusReason // its command ended with the stop
	require.Equal(t, before, after)
}
