package cgroup

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawnGroup is a group for one run of a property; its end takes it away.
func drawnGroup(t *rapid.T, h *Host, n int) (g *Group, end func()) {
	g, err := h.Group(fmt.Sprintf("/polis-test-props/%d-%d", time.Now().UnixNano(), n))
	require.NoError(t, err)
	return g, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, g.Kill(ctx))
		require.NoError(t, g.Remove(ctx))
		require.False(t, g.Exists())
	}
}

// removeParent removes the parent of the groups of a property test.
func removeParent(t *testing.T, h *Host) {
	t.Cleanup(func() {
		g, err := h.Group("/polis-test-props")
		require.NoError(t, err)
		require.NoError(t, g.RemoveIfEmpty())
	})
}

// inGroup runs a script in the group and returns what it prints and the
// process; it is stopped until it has been moved.
func inGroup(t *rapid.T, g *Group, script string) (out *strings.Builder, cmd *exec.Cmd) {
	cmd = exec.Command("/bin/sh", "-c", `read go; exec /bin/sh -c "$1"`, "sh", script)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out = &strings.Builder{}
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	require.NoError(t, g.Join(cmd.Process.Pid))
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	return out, cmd
}

// Feature: multi-agent-workspaces, Property 14: Memory Limit Application
func TestAnyMemoryLimitIsTheKernels(t *testing.T) {
	h := needRoot(t)
	removeParent(t, h)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		g, end := drawnGroup(t, h, n)
		defer end()
		limit := int64(rapid.OneOf(rapid.Just(512), rapid.IntRange(16, 1<<20)).Draw(t, "MB")) << 20
		require.NoError(t, g.Ensure(Limits{MemoryBytes: limit}))
		if rapid.Bool().Draw(t, "changed") {
			limit = int64(rapid.IntRange(16, 1<<20).Draw(t, "then MB")) << 20
			require.NoError(t, g.Ensure(Limits{MemoryBytes: limit}))
		}
		s, err := g.Stats()
		require.NoError(t, err)
		require.EqualValues(t, limit, s.MemoryLimit)
		// The processes of the agent, and their children, are the ones it holds for.
		out, cmd := inGroup(t, g, "cat /proc/self/cgroup")
		require.NoError(t, cmd.Wait())
		require.Contains(t, out.String(), g.Path+"\n")
	})
}

// Feature: multi-agent-workspaces, Property 15: Memory Limit Enforcement
func TestWhateverExceedsItsMemoryLimitIsKilledAndReported(t *testing.T) {
	h := needRoot(t)
	removeParent(t, h)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		g, end := drawnGroup(t, h, n)
		defer end()
		limit := rapid.IntRange(8, 24).Draw(t, "MB")
		require.NoError(t, g.Ensure(Limits{MemoryBytes: int64(limit) << 20, Pids: 50}))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		events, err := g.WatchOOM(ctx)
		require.NoError(t, err)
		// tail keeps a file that has no line whole in memory.
		needs := limit + rapid.IntRange(-limit+1, 64).Draw(t, "above")
		over := needs > limit
		if !over {
			needs = min(needs, limit/2) // the program itself needs some, too
		}
		_, cmd := inGroup(t, g, fmt.Sprintf("head -c %d /dev/zero | tail -n 1 | wc -c >/dev/null", needs<<20))
		if over {
			select {
			case e := <-events:
				require.Positive(t, e.Count)
			case <-time.After(30 * time.Second):
				t.Fatal("no event")
			}
		}
		_ = cmd.Wait() // the status is the pipe's last program's
		s, err := g.Stats()
		require.NoError(t, err)
		require.Equal(t, over, s.OOMKills > 0, "%d MB of %d", needs, limit)
		cancel()
		for range events { // ends
		}
	})
}

// Feature: multi-agent-workspaces, Property 28: Process Reaping on Removal
func TestNoProcessOutlivesItsGroup(t *testing.T) {
	h := needRoot(t)
	removeParent(t, h)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		g, end := drawnGroup(t, h, n)
		defer end()
		require.NoError(t, g.Ensure(Limits{}))
		// Every way to be left behind: in the background, in a session of its
		// own, forked twice, deaf to signals, stopped.
		ways := []string{"sleep 1000 &", "setsid sleep 1000 &", "(setsid sh -c 'sleep 1000 & sleep 1000' &) &",
			"sh -c 'trap \"\" TERM HUP INT QUIT; sleep 1000; sleep 1000' &", "sh -c 'kill -STOP $$' &", "nohup sleep 1000 >/dev/null 2>&1 &"}
		script, want := "", 0
		for range rapid.IntRange(1, 6).Draw(t, "processes") {
			script += rapid.SampledFrom(ways).Draw(t, "way") + "\n"
			want++
		}
		last := rapid.SampledFrom([]string{"exit 0", "sleep 1000", "kill -9 $$"}).Draw(t, "first process")
		_, cmd := inGroup(t, g, script+last)
		var before []int
		require.Eventually(t, func() bool {
			var err error
			before, err = g.Procs()
			require.NoError(t, err)
			return len(before) >= want
		}, 30*time.Second, time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, g.Kill(ctx))
		require.NoError(t, g.Remove(ctx))
		_ = cmd.Wait() // killed, or gone before
		for _, pid := range before {
			alive, err := alive(pid)
			require.NoError(t, err)
			require.False(t, alive, "process %d is left", pid)
		}
	})
}
