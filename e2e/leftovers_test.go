package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// hub is a program that leaves a daemon running, as some agents do. The daemon has another parent
// and a session of its own.
const hub = `( setsid /usr/bin/python3 -c '
import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", %d)); s.listen()
time.sleep(1000)' >/dev/null 2>&1 & ); %s; echo done`

func (d *daemon) leftovers(agent string, flags ...string) api.Leftovers {
	d.t.Helper()
	var out api.Leftovers
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json", "agents", "leftovers", agent}, flags...)...)), &out))
	return out
}

// TestWhatATaskLeavesRunning is listed with its memory and port, gets no port of the host, and is
// ended, kept or asked about as the role says.
func TestWhatATaskLeavesRunning(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.tidy]\nleftovers = \"end\"\n[roles.careful]\nleftovers = \"ask\"\n"})
	d.up()
	for name, role := range map[string][]string{"alice": nil, "tidy": {"--role", "tidy"}, "careful": {"--role", "careful"}} {
		d.must(append([]string{"agents", "add", name, "--base", "custom", "--write", "**"}, append(role, "--", "sh", "-c", fmt.Sprintf(hub, 25463, map[bool]string{true: "while ! test -e $HOME/over; do sleep 0.05; done", false: "sleep 2"}[name == "alice"]))...)...)
	}
	// A server that a person starts in an agent while the task runs is not a leftover.
	d.must("agents", "run", "alice", "work")
	shell := d.follow("agents", "exec", "alice", "--", "/usr/bin/python3", "-c", `import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 8080)); s.listen(); print("there", flush=True); time.sleep(1000)`)
	d.eventually("the person's server", func() bool { return strings.Contains(shell.text(), "there") })
	d.eventually("the port of the hub is mapped while the task runs", func() bool { _, ok := d.ports("alice")[25463]; return ok })
	require.NoError(t, os.WriteFile(d.home("alice", "over"), nil, 0o644))
	d.eventually("the task has ended", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })
	d.eventually("the map has gone with the task", func() bool { _, ok := d.ports("alice")[25463]; return !ok })
	left := d.leftovers("alice").Leftovers
	require.Len(t, left, 1)
	require.Contains(t, left[0].Command, "25463")
	require.Equal(t, []api.LeftoverPort{{Port: 25463, Protocol: "tcp"}}, left[0].Ports)
	require.Greater(t, left[0].MemoryBytes, int64(1<<20))
	require.Contains(t, d.must("agents", "list"), "alice: its last command left running: python3 on port 25463")
	hint := "polisctl ports add alice 25463"
	require.Contains(t, d.must("ports", "list"), hint)
	require.Contains(t, d.must("ports", "list", "alice"), hint)
	require.NotContains(t, d.must("ports", "list", "tidy"), hint)
	events := d.must("--json", "events")
	require.Contains(t, events, `"agent:leftovers"`)
	require.Contains(t, events, "it keeps running: polisctl agents leftovers --end alice ends it")

	// A later polisd lists it, too, and does not map it either.
	require.Error(t, d.signal(9))
	d.start()
	require.Len(t, d.leftovers("alice").Leftovers, 1)
	time.Sleep(time.Second) // long enough for a port to be mapped
	require.NotContains(t, d.ports("alice"), 25463)
	d.must("ports", "add", "alice", "25463")
	require.Contains(t, d.ports("alice"), 25463, "a person may map it")
	require.NotContains(t, d.must("ports", "list"), hint)

	res := d.leftovers("alice", "--end")
	require.Equal(t, 1, res.Ended)
	require.Empty(t, res.Leftovers)
	d.eventually("it is reaped", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", left[0].PID))
		return errors.Is(err, fs.ErrNotExist)
	})
	require.NotContains(t, d.must("agents", "list"), "left running")
	require.True(t, alive(shell), "it is a person's")
	_ = shell.cmd.Process.Kill()

	d.must("agents", "run", "tidy", "work")
	d.eventually("it is ended", func() bool {
		return strings.Contains(d.must("--json", "events"), `it was ended, as leftovers = \"end\" of its role says`)
	})
	require.Empty(t, d.leftovers("tidy").Leftovers)
	d.must("agents", "run", "careful", "work")
	d.eventually("the event asks", func() bool { return strings.Contains(d.must("--json", "events"), "is it to stay?") })
	require.Len(t, d.leftovers("careful").Leftovers, 1)
	require.Equal(t, 1, d.leftovers("careful", "--end").Ended)

	// An agent's own rule overrides its role's.
	d.must("agents", "set", "careful", "--leftovers", "end")
	a, _ := d.agent("careful")
	require.Equal(t, api.LeftoversEnd, a.LeftoversRule)
	d.must("agents", "run", "careful", "work")
	d.eventually("it is ended", func() bool {
		return strings.Contains(d.must("--json", "events"), `it was ended, as leftovers = \"end\" of the agent says`)
	})
	d.must("agents", "set", "careful", "--leftovers", "default")
	a, _ = d.agent("careful")
	require.Empty(t, a.LeftoversRule)
	d.refused(api.CodeBadRequest, "agents", "set", "careful", "--leftovers", "kill")
	d.refused(api.CodeBadRequest, "agents", "add", "other", "--base", "custom", "--leftovers", "kill")
}

func alive(f *follower) bool {
	select {
	case err := <-f.done:
		f.done <- err
		return false
	default:
		_, err := os.Stat(fmt.Sprintf("/proc/%d", f.cmd.Process.Pid))
		return err == nil
	}
}
