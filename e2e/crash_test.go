package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// withFailpoints builds a polisd that dies at a chosen step, beside the other programs as they are
// shipped.
func (d *daemon) withFailpoints() string {
	d.t.Helper()
	dir := d.path("bin")
	require.NoError(d.t, os.Mkdir(dir, 0o755))
	for _, name := range []string{"polisctl", "polis-shim"} {
		require.NoError(d.t, os.Symlink(filepath.Join(d.bin, name), filepath.Join(dir, name)))
	}
	cmd := exec.CommandContext(d.t.Context(), "go", "build", "-trimpath", "-tags", "failpoint", "-o", dir+"/", "../cmd/polisd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "%s", out)
	return dir
}

// TestWhatIsShippedHasNoFailpoints.
func TestWhatIsShippedHasNoFailpoints(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(bin(t), "polisd"))
	require.NoError(t, err)
	require.NotContains(t, string(b), "POLIS_FAILPOINT")
}

// steps returns the steps that polisd passed while do ran, each once.
func (d *daemon) steps(do func() result) []string {
	d.t.Helper()
	require.NoError(d.t, os.RemoveAll(d.path("failpoint.log")))
	r := do()
	require.Zero(d.t, r.code, "%s", r)
	var out []string
	for _, s := range strings.Split(strings.TrimSpace(readFile(d.path("failpoint.log"))), "\n") {
		if strings.HasPrefix(s, "receipt:") {
			continue // they come at any time; receipts_test.go has them
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	require.NotEmpty(d.t, out)
	return out
}

// dieAt has polisd die at a step of do, and starts it again.
func (d *daemon) dieAt(step string, do func() result) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(d.path("failpoint"), []byte(step), 0o644))
	r := do()
	select {
	case err := <-d.done:
		d.done <- err
	case <-time.After(patience):
		d.t.Fatalf("polisd did not come by %s: %s", step, r)
	}
	d.start()
}

// report returns what polisd reported at its start.
func (d *daemon) report() api.ReconcileReport {
	d.t.Helper()
	var st api.DaemonStatus
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "status")), &st))
	require.NotNil(d.t, st.Reconcile)
	return *st.Reconcile
}

// nothingOf requires that nothing remains of an agent except saved work.
func (d *daemon) nothingOf(agent, step string) {
	d.t.Helper()
	require.Empty(d.t, d.cgroupsNamed(agent), step)
	polis := d.path("ws", ".polis")
	for _, p := range []string{d.path("run", "netns", agent), d.path("run", "agents", agent), filepath.Join(polis, "worktrees", agent), filepath.Join(polis, "bare-repo.git", "worktrees", agent),
		filepath.Join(polis, "homes", agent), filepath.Join(polis, "private", agent), filepath.Join(polis, "save-*"), filepath.Join(polis, ".state.json.*")} {
		require.Empty(d.t, glob(p), step)
	}
	require.Empty(d.t, git(d.t, filepath.Join(polis, "bare-repo.git"), "branch", "--list", "agent/"+agent), step)
}

// TestPolisdDiesAtEveryStep of adding and removing: after the next start the agent is complete or
// does not exist, the report names the repair, no unsaved work is lost, and the operation can be
// repeated.
func TestPolisdDiesAtEveryStep(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	d.up()
	d.add("bob")
	d.sh("bob", "echo bob > bob.txt")
	add := func() result { return d.ctl("agents", "add", "alice", "--base", "custom", "--port", "3000") }
	remove := func() result { return d.ctl("agents", "remove", "alice", "--force") }
	bare := d.internal()
	work := func() {
		d.sh("alice", "echo one > committed.txt; git add -A; git commit -qm one; echo precious > untracked.txt")
	}
	trash := func() []string {
		return strings.Fields(git(t, bare, "for-each-ref", "refs/polis/trash/alice", "--format=%(refname)"))
	}

	adding := d.steps(add)
	work()
	removing := d.steps(remove)
	require.Subset(t, adding, []string{"state:written", "add:noted", "worktree:directory", "worktree:made", "up:worktree", "up:network namespace", "up:shim"})
	require.Subset(t, removing, []string{"state:written", "remove:noted", "down:shim", "down:network namespace", "remove:stopped", "remove:saved", "remove:kept", "gone:network namespace", "worktree:away", "gone:worktree", "remove:branch", "remove:forgotten"})

	kept := len(trash())
	for _, step := range adding {
		d.dieAt(step, add)
		rep := d.report()
		require.Empty(t, rep.Errors, step)
		if _, there := d.agent("alice"); there {
			t.Fatalf("%s: half an agent is there", step)
		}
		d.nothingOf("alice", step)
		if step != "state:written" { // nothing was done yet
			require.Contains(t, strings.Join(rep.Healed, "\n"), "alice: was being added", step)
			require.Contains(t, d.must("status"), "alice: was being added")
		}
	}
	require.Len(t, trash(), kept, "an unused worktree is not kept")
	for i, verb := range [][]string{{"agents", "remove", "alice", "--force"}, {"discard", "alice", "--yes"}} {
		for _, step := range removing {
			if i > 0 && !slices.Contains([]string{"remove:saved", "worktree:away", "remove:branch"}, step) {
				continue
			}
			add()
			work()
			before := trash()
			d.dieAt(step, func() result { return d.ctl(verb...) })
			rep := d.report()
			require.Empty(t, rep.Errors, step)
			if _, there := d.agent("alice"); there {
				require.Equal(t, "state:written", step, "a removal that was begun is finished")
				require.Equal(t, "one\nprecious\n", d.sh("alice", "cat committed.txt untracked.txt"))
				d.must(verb...)
			} else if step != "remove:forgotten" {
				require.Contains(t, strings.Join(rep.Healed, "\n"), "alice: was being removed", step)
			}
			d.nothingOf("alice", step)
			now := trash()
			require.Greater(t, len(now), len(before), step)
			for _, ref := range now[len(before):] {
				require.Equal(t, "precious\n", git(t, bare, "show", ref+":untracked.txt"), step)
				require.Equal(t, "one\n", git(t, bare, "show", ref+":committed.txt"), step)
			}
		}
	}
	require.Equal(t, "bob\n", d.sh("bob", "cat bob.txt"), "and bob works on")
}

// TestPolisdDiesWhileAnAgentStartsOrStops: afterwards it runs or not, and it can be started with
// all its files.
func TestPolisdDiesWhileAnAgentStartsOrStops(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	d.up()
	d.add("alice", "--port", "3000", "--", "sleep", "1000")
	d.sh("alice", "echo kept > kept.txt")
	stop := func() result { return d.ctl("agents", "stop", "alice") }
	start := func() result { return d.ctl("agents", "start", "--program", "alice") }
	stopping := d.steps(stop)
	starting := d.steps(start)
	for _, c := range []struct {
		steps      []string
		do, before func() result
	}{{stopping, stop, start}, {starting, start, stop}} {
		for _, step := range c.steps {
			c.before()
			d.dieAt(step, c.do)
			require.Empty(t, d.report().Errors, step)
			a, there := d.agent("alice")
			require.True(t, there, step)
			require.Contains(t, []api.Status{api.StatusIdle, api.StatusRunning, api.StatusStopped}, a.Status, step)
			d.must("agents", "start", "--program", "alice")
			require.Equal(t, "kept\n", d.sh("alice", "cat kept.txt"), step)
			require.NotZero(t, d.ports("alice")[3000].External, step)
			require.Equal(t, 1, d.living(), step)
		}
	}
}
