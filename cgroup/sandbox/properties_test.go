//go:build seccomp

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Feature: multi-agent-workspaces, Property 26: Mount Namespace Isolation (Full Mode)
func TestNoPathLeadsToAnotherAgentsFiles(t *testing.T) {
	needRoot(t)
	const mark = "the other agent's secret"
	ws := t.TempDir()
	tree := func(agent string) string { return filepath.Join(ws, ".polis/worktrees", agent) }
	view := map[string]string{}
	for _, agent := range []string{"one", "two"} {
		require.NoError(t, os.MkdirAll(tree(agent), 0o777))
		view[agent] = t.TempDir()
		require.NoError(t, os.Chmod(view[agent], 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(view[agent], "own"), []byte("found"), 0o666))
		for _, dir := range []string{view[agent], tree(agent)} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "secret-of-"+agent), []byte(mark), 0o666))
		}
	}
	cfg, other := testConfig(t), testConfig(t)
	cfg.Mounts = []Mount{{Source: view["one"], Dest: tree("one")}}
	other.Mounts = []Mount{{Source: view["two"], Dest: tree("two")}}
	s, neighbour := create(t, cfg), create(t, other)
	require.Equal(t, mark, sh(t, neighbour, "cat "+tree("two")+"/secret-of-two"), "the other one has it")
	require.Equal(t, "found", sh(t, s, "cat "+tree("one")+"/../one/own"), "paths with dots work")
	// Links of the agent's own, to wherever it likes.
	links := map[string]string{"up": "..", "root": "/", "abs": tree("two"), "proc": "/proc/1/root", "self": "/proc/self/root", "cwd": "/proc/1/cwd"}
	for name, target := range links {
		require.NoError(t, os.Symlink(target, filepath.Join(view["one"], name)))
	}
	first := []string{tree("one"), ".", "/proc/1/root" + tree("one"), "/proc/self/cwd", tree("one") + "/up", tree("one") + "/root", tree("one") + "/abs",
		tree("one") + "/proc", tree("one") + "/self", tree("one") + "/cwd", view["two"], filepath.Dir(other.HomeDir), "/proc/1/fd/3", "/proc/thread-self/root"}
	step := rapid.SampledFrom([]string{"..", ".", "", "../..", "two", "../two", "worktrees/two", ".polis/worktrees/two", strings.TrimPrefix(tree("two"), "/"), "root", "up", "abs", "../../agent-2"})
	rapid.Check(t, func(rt *rapid.T) {
		path := rapid.SampledFrom(first).Draw(rt, "first") + "/" + strings.Join(rapid.SliceOfN(step, 0, 8).Draw(rt, "steps"), "/")
		script := `cd ` + tree("one") + `; p="$1"; for f in "$p" "$p/secret-of-two"; do cat "$f" 2>/dev/null; echo changed 2>/dev/null >"$p/secret-of-two"; rm -f "$p/secret-of-two"; ls "$p"; done 2>/dev/null; true`
		out, _ := run(t, s, "/bin/sh", "-c", script, "sh", path)
		require.NotContains(t, out, mark, path)
		require.NotContains(t, out, "secret-of-two", path)
		for _, dir := range []string{view["two"], tree("two")} {
			b, err := os.ReadFile(filepath.Join(dir, "secret-of-two"))
			require.NoError(t, err)
			require.Equal(t, mark, string(b), path)
		}
	})
}

// Feature: multi-agent-workspaces, Property 27: PID Namespace Isolation (Full Mode)
func TestNoSignalReachesAnotherAgentsProcess(t *testing.T) {
	s, other := create(t, testConfig(t)), create(t, testConfig(t))
	neighbour, err := other.Start(Process{Args: []string{"sleep", "3600"}})
	require.NoError(t, err)
	inOwn, code := run(t, other, "pgrep", "-x", "sleep")
	require.Zero(t, code, "the other one sees it")
	ids := []int{neighbour.Pid(), -neighbour.Pid(), os.Getpid(), os.Getppid(), -1, 0, 1, 2, 3}
	for _, f := range strings.Fields(inOwn) {
		n, err := strconv.Atoi(f)
		require.NoError(t, err)
		ids = append(ids, n, -n)
	}
	pid := rapid.OneOf(rapid.SampledFrom(ids), rapid.IntRange(-70000, 70000))
	rapid.Check(t, func(rt *rapid.T) {
		script := ""
		for range rapid.IntRange(1, 5).Draw(rt, "signals") {
			sig, p := rapid.SampledFrom([]string{"KILL", "TERM", "HUP", "INT", "USR1", "SEGV", "CONT"}).Draw(rt, "signal"), pid.Draw(rt, "pid")
			script += rapid.SampledFrom([]string{
				fmt.Sprintf("setsid sh -c 'kill -s %s -- %d'\n", sig, p),
				fmt.Sprintf("pkill -%s sleep\n", sig), fmt.Sprintf("pkill -%s -u 0\n", sig), fmt.Sprintf("killall -%s sleep\n", sig),
			}).Draw(rt, "program")
		}
		_, _ = run(t, s, "/bin/sh", "-c", "("+script+") 2>/dev/null; true")
		for what, done := range map[string]<-chan struct{}{"the process": neighbour.Done(), "process 1": s.Done(), "the other's process 1": other.Done()} {
			select {
			case <-done:
				rt.Fatalf("%s is gone after %s", what, script)
			default:
			}
		}
	})
}
