package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// said says a text to an agent, and returns its record.
func (d *daemon) said(agent, text string) api.SayResponse {
	d.t.Helper()
	var r api.SayResponse
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "say", agent, text)), &r))
	return r
}

// TestATextReachesAnAgentWhateverItDoes: polisctl send fails for a task without standard input; polisctl
// say queues the text, also across a restart of polisd, and it runs once.
func TestATextReachesAnAgentWhateverItDoes(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("ann")
	first := d.said("ann", "touch begun; while ! test -e go; do sleep 0.05; done")
	require.Equal(t, api.SayTask, first.Task.Said.Way)
	require.Equal(t, "agent ann works on it as ann.1, as a task of its own: its program does not continue its last session", first.Message)
	d.eventually("the task to begin", func() bool { return d.exec("ann", "test", "-e", "begun").code == 0 })
	require.True(t, strings.HasPrefix(d.must("say", "ann", "--", "echo once >> said.txt"), "queued as ann.2, after ann.1 ends, "))
	dropped := d.said("ann", "echo never >> said.txt")
	d.must("tasks", "cancel", dropped.Task.ID)

	require.NoError(t, d.signalRestart())
	require.Equal(t, api.TaskQueued, d.taskRecord("ann.2").State)
	d.sh("ann", "touch go")
	d.eventually("the text to be a task that has ended", func() bool { return d.taskRecord("ann.2").State == api.TaskEnded })
	require.Contains(t, d.must("--json", "events"), `"way": "queued"`)
	require.NoError(t, d.signalRestart())
	require.Equal(t, "once\n", d.sh("ann", "cat said.txt"))
	got := d.taskRecord("ann.2")
	require.Equal(t, "user:0", got.Said.By)

	// A program that is no task gets it typed.
	d.add("bob", "--", "sh", "-c", `while read line; do echo "got $line"; done`)
	d.must("agents", "start", "--program", "bob")
	require.Equal(t, "typed into the program of agent bob\n", d.must("say", "bob", "hello"))
	d.eventually("bob to answer", func() bool { return strings.Contains(d.must("agents", "watch", "bob"), "got hello") })
	d.refused(api.CodeBadRequest, "say", "bob", "\x1b[2J")
	d.refused(api.CodeAgentNotFound, "say", "carl", "hello")
}
