package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestTheNextTaskBeginsAtOnce: a script that has learned in any way that a task has ended gives the next
// one, or removes the agent, without waiting for anything else.
func TestTheNextTaskBeginsAtOnce(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice")
	idle := func() {
		t.Helper()
		a, ok := d.agent("alice")
		require.True(t, ok)
		require.Equal(t, api.StatusIdle, a.Status)
	}
	run := func(args ...string) string {
		t.Helper()
		var task api.Task
		require.NoError(t, json.Unmarshal([]byte(d.must(append([]string{"--json", "agents", "run", "alice"}, args...)...)), &task))
		return task.ID
	}
	for range 3 {
		d.must("run", "--wait", "alice", "echo x >> made.txt")
		idle()
		id := run("-e", "A=b", "true")
		d.eventually("its record says that it has ended", func() bool { return d.taskRecord(id).State == api.TaskEnded })
	}
	// A program that reports the end and continues for a while.
	began := run("polisctl done; sleep 1; touch ended")
	d.eventually("it has reported its end", func() bool { return d.taskRecord(began).State == api.TaskEnded })
	run("test -e ended && touch after")
	d.settled("alice")
	require.Equal(t, "yes\n", d.sh("alice", "test -e after && echo yes"))
	d.must("run", "--wait", "alice", "rm ended; polisctl done; sleep 1; touch ended")
	idle()
	require.Equal(t, "yes\n", d.sh("alice", "test -e ended && echo yes"))

	sleeper := run("sleep 1000")
	d.must("tasks", "cancel", sleeper)
	idle()
	d.must("run", "--wait", "alice", "git clean -qfd")
	d.must("agents", "remove", "alice")
}
