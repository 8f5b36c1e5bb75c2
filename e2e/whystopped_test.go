package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (d *daemon) whyOf(agent string) (out api.Refusals) {
	d.t.Helper()
	decode(d.t, d.must("--json", "agents", "why", agent), &out)
	return out
}

// refusedThings is how often each thing was refused.
func refusedThings(res api.Refusals) map[string]int {
	out := map[string]int{}
	for _, w := range res.Why {
		out[strings.Join([]string{w.Op, w.Path, w.Name(), w.Errno, w.By, w.Reason, w.Rule, w.Hint}, "|")] = max(w.Count, 1)
	}
	return out
}

// TestWhyOfAStoppedAgent is what the agent was refused while it ran, by whom, with its state and since when it is in that:
// also after a restart of polisd, and of an agent in Error. Another agent of its name was refused nothing.
func TestWhyOfAStoppedAgent(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice", "--deny", "docs/**")
	d.must("run", "--wait", "alice", "cat docs/guide.md || true; echo x > docs/guide.md || true")
	asked := d.asking("alice", "polisctl ask -- make deploy")
	d.must("approvals", "deny", d.question("alice").ID, "not today")
	<-asked
	d.deniedBy("alice", "root denied bash make deploy: not today")
	before := d.whyOf("alice")
	require.False(t, before.Recorded)
	require.Equal(t, api.StatusIdle, before.Status)
	require.GreaterOrEqual(t, len(before.Why), 3)

	d.must("agents", "stop", "alice")
	stopped := d.whyOf("alice")
	require.True(t, stopped.Recorded)
	require.Equal(t, api.StatusStopped, stopped.Status)
	require.WithinDuration(t, time.Now(), *stopped.StatusSince, time.Minute)
	require.Equal(t, refusedThings(before), refusedThings(stopped))
	text := d.must("agents", "why", "alice")
	require.Regexp(t, `^agent alice is Stopped since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d; recorded until then:\n`, text)
	for _, want := range []string{"  open docs/guide.md: DENIED_READ (EACCES)\n", `because: deny "docs/**"`, "root denied bash make deploy: not today"} {
		require.Contains(t, text, want)
	}
	d.stop()
	d.start()
	again := d.whyOf("alice")
	require.Equal(t, refusedThings(stopped), refusedThings(again))
	require.Equal(t, stopped.StatusSince, again.StatusSince)

	d.must("agents", "start", "alice")
	require.Empty(t, d.whyOf("alice").Why, "what its shim of now refused")
	require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGKILL))
	d.eventually("alice is in Error", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusError })
	require.Equal(t, refusedThings(stopped), refusedThings(d.whyOf("alice")))
	require.Contains(t, d.must("agents", "why", "alice"), "agent alice is in state Error since ")

	// An agent in Error is not nothing.
	for _, cmd := range [][]string{{"patrol", "run", "--once"}, {"patrol", "run", "--once", "--dry-run"}, {"patrol"}} {
		text := d.must(cmd...)
		require.NotContains(t, text, "nothing is wrong", cmd)
		require.Regexp(t, `(?m)^alice +Error `, text, cmd)
		require.Contains(t, text, "alice: in state Error: ")
		require.Contains(t, text, "next: polisctl agents start alice")
	}
	d.must("agents", "start", "alice")
	require.NotContains(t, d.must("patrol", "run", "--once"), "in state Error")

	d.must("agents", "remove", "--force", "alice")
	d.worker("alice")
	d.must("agents", "stop", "alice")
	require.Contains(t, d.must("agents", "why", "alice"), "agent alice was refused nothing")
}
