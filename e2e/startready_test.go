package e2e

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// program adds an agent whose program waits for input, and which works on a prompt for sh.
func (d *daemon) program(name string) {
	d.t.Helper()
	d.must("agents", "add", name, "--base", "custom", "--", "sh", "-c", `if test -n "$1"; then eval "$1"; else echo program >> $HOME/runs; exec sleep 100000; fi`, "polis")
}

// TestStartMakesAnAgentReady without its program: tasks begin at once. With --program it runs, and tasks that wait for it
// name it, and the two ways out.
func TestStartMakesAnAgentReady(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.program("alice")
	status := func() api.Status { a, _ := d.agent("alice"); return a.Status }
	d.must("agents", "stop", "alice")
	require.Contains(t, d.must("agents", "start", "alice"), "agent alice is Idle, ready for a task")
	require.Equal(t, api.StatusIdle, status())
	d.must("run", "--wait", "alice", "echo task >> $HOME/runs")
	require.Contains(t, d.must("agents", "start", "alice"), "Idle", "nothing changes for an agent that is ready")
	require.Equal(t, []string{"task"}, d.runs("alice"))

	require.Contains(t, d.must("agents", "start", "--program", "alice"), "agent alice is Running")
	d.eventually("its program runs", func() bool { return len(d.runs("alice")) == 2 })
	out := d.must("run", "-d", "alice", "echo after >> $HOME/runs")
	for _, text := range []string{out, d.must("tasks"), d.must("tasks", "show", "alice.2"), d.must("agents", "list"), d.must("agents", "start", "alice")} {
		require.Contains(t, text, "the program of alice runs (since ")
		require.Contains(t, text, "polisctl agents stop alice ends it, polisctl agents attach alice shows it")
	}
	a, _ := d.agent("alice")
	require.Equal(t, 1, a.Task.Queued)
	require.Equal(t, api.WaitProgram, a.Task.Waits.For)
	since := d.taskRecord("alice.2").Waits.Since
	require.False(t, since.IsZero())
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(t, since, d.taskRecord("alice.2").Waits.Since, "it is known to the next polisd, too")

	// A stop ends the program, and its output names how what waits begins.
	stopped := d.must("agents", "stop", "alice")
	require.Contains(t, stopped, "agent alice is Stopped")
	require.Contains(t, stopped, "alice: 1 task waits: agent alice is Stopped; polisctl agents start alice begins what waits")
	require.Equal(t, api.WaitStopped, d.taskRecord("alice.2").Waits.For)
	d.must("agents", "start", "alice")
	d.ended("alice.2", api.OutcomeNothing)
	require.Nil(t, d.taskRecord("alice.2").Waits)
	require.Equal(t, []string{"task", "program", "after"}, d.runs("alice"))
	require.Equal(t, 2, d.ctl("agents", "start", "--attach").code)
}

// TestTheAPIsStartKeepsItsMeaning: programs of an older polisctl start the program of an agent.
func TestTheAPIsStartKeepsItsMeaning(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.program("alice")
	c := client.New(d.path("run", "polisd.sock"))
	defer c.Close()
	a, err := c.Start(t.Context(), "alice")
	require.NoError(t, err)
	require.Equal(t, api.StatusRunning, a.Status)
	a, err = c.BringUp(t.Context(), "alice")
	require.NoError(t, err)
	require.Equal(t, api.StatusRunning, a.Status, "it changes nothing")
	d.must("agents", "stop", "alice")
	a, err = c.BringUp(t.Context(), "alice")
	require.NoError(t, err)
	require.Equal(t, api.StatusIdle, a.Status)
}

// TestATaskBringsAnAgentInErrorUp after its shim has died, before the tasks that wait, too.
func TestATaskBringsAnAgentInErrorUp(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.program("alice")
	dies := func() {
		t.Helper()
		require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGKILL))
		d.eventually("alice is in Error", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusError })
	}
	d.sh("alice", "echo kept > kept.txt")
	dies()
	d.must("run", "--wait", "alice", "cat kept.txt >> $HOME/runs; rm kept.txt")
	require.Equal(t, []string{"kept"}, d.runs("alice"))
	dies()
	d.must("agents", "run", "alice", "echo two >> $HOME/runs")
	d.ended("alice.2", api.OutcomeNothing)

	d.must("agents", "start", "--program", "alice")
	d.eventually("its program runs", func() bool { return len(d.runs("alice")) == 3 })
	d.must("run", "-d", "alice", "echo waited >> $HOME/runs")
	dies()
	require.Equal(t, api.WaitError, d.taskRecord("alice.3").Waits.For)
	var last api.Task
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "run", "-d", "alice", "echo last >> $HOME/runs")), &last))
	d.ended(last.ID, api.OutcomeNothing)
	require.Equal(t, []string{"kept", "two", "program", "waited", "last"}, d.runs("alice"))
}
