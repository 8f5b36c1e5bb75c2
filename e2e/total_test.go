package e2e

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAllAgentsTogetherAreLimited although each of them is within its own limits.
func TestAllAgentsTogetherAreLimited(t *testing.T) {
	const limits = "[limits]\nmemory_mb = 128\npids = 100\n"
	d := startDaemon(t, options{config: limits + "[limits.total]\nmemory_mb = 180\npids = 120\n"})
	d.up()
	d.add("gone") // the group above goes with the last agent in it
	d.must("agents", "remove", "gone")
	hold := `x = bytearray(100 << 20); print("full", flush=True); import time; time.sleep(600)`
	for _, name := range []string{"alice", "bob"} {
		d.must("agents", "add", name, "--base", "custom", "--", "python3", "-c", hold)
	}
	var out string
	for _, name := range []string{"alice", "bob"} {
		r := d.exec(name, "sh", "-c", "for i in $(seq 80); do sleep 600 >/dev/null 2>&1 & done")
		out += r.stdout + r.stderr
	}
	require.Contains(t, out, "ork", "160 processes, 80 in each")
	d.endSleeps("600")

	d.must("agents", "start", "--program", "alice")
	d.eventually("the memory is in use", func() bool { return strings.Contains(d.must("agents", "watch", "alice"), "full") })
	d.must("agents", "start", "--program", "bob")
	d.eventually("one of them is killed", func() bool {
		a, _ := d.agent("alice")
		b, _ := d.agent("bob")
		return a.Status == api.StatusError || b.Status == api.StatusError
	})
	d.eventually("it is an event", func() bool { return len(d.ooms()) > 0 })
	for _, e := range d.ooms() {
		require.Equal(t, "python3", e.Data["comm"])
		require.Equal(t, true, e.Data["total"], e.Message)
		require.Greater(t, e.Data["bytes"], float64(50<<20))
	}

	// Without a total they are what they were before.
	d.must("agents", "stop", "--all")
	d.write("polisd.toml", strings.ReplaceAll(strings.ReplaceAll(readFile(d.path("polisd.toml")), "memory_mb = 180", ""), "pids = 120", ""))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the configuration is read", func() bool { return strings.Contains(d.log(), "configuration was read again") })
	for _, name := range []string{"alice", "bob"} {
		d.must("agents", "start", "--program", name)
		d.eventually("its memory is in use", func() bool { return strings.Count(d.must("agents", "watch", name), "full") > 0 })
	}
	for _, name := range []string{"alice", "bob"} {
		a, _ := d.agent(name)
		require.Equal(t, api.StatusRunning, a.Status)
	}
}

// endSleeps kills the agents' processes that are "sleep arg", from outside: an agent at its process
// limit cannot start another one. It waits until none is left.
func (d *daemon) endSleeps(arg string) {
	d.t.Helper()
	d.eventually("the agents' sleeping processes to end", func() bool {
		left := false
		for _, f := range glob("/proc/[0-9]*/cmdline") {
			if readFile(f) != "sleep\x00"+arg+"\x00" || !d.ours(f) {
				continue
			}
			left = true
			if pid, err := strconv.Atoi(strings.Split(f, "/")[2]); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it has ended
			}
		}
		return !left
	})
}

// eventsOf are the events of a type.
func (d *daemon) eventsOf(typ string) []api.Event {
	d.t.Helper()
	var all struct{ Events []api.Event }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("events", "--all", "--json")), &all))
	return slices.DeleteFunc(all.Events, func(e api.Event) bool { return e.Type != typ })
}

// ooms are the events of processes killed for memory.
func (d *daemon) ooms() []api.Event {
	d.t.Helper()
	return d.eventsOf(api.EventOOM)
}
