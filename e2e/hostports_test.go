package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestHostPortsLeadToTheHostsLoopback(t *testing.T) {
	world := newInternet(t)
	for _, bind := range []string{"127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"} {
		world.web(world.in, bind, "host")
	}
	d := world.startBehind("", "[roles.model.network]\nhost_ports = [7001]\negress = \"none\"\n")
	d.up()
	require.Empty(t, d.add("plain").HostPorts)
	require.Equal(t, []uint16{7001}, d.add("role", "--role", "model").HostPorts)
	require.Equal(t, []uint16{7001, 7002}, d.add("own", "--role", "model", "--host-port", "7002,7001").HostPorts)
	require.Empty(t, d.add("closed", "--role", "model", "--host-port", "none").HostPorts)

	// Exactly the named ports are reachable, also without egress, and by the host's names.
	for _, agent := range []string{"role", "own"} {
		d.gets(agent, "127.0.0.1:7001", "host 127.0.0.1")
		d.gets(agent, "localhost:7001", "host 127.0.0.1")
		d.gets(agent, "host.docker.internal:7001", "host 127.0.0.1")
		d.gets(agent, "host.polis:7001", "host 127.0.0.1")
		d.noGet(agent, "127.0.0.1:7003", notReached)
	}
	d.gets("own", "127.0.0.1:7002", "host 127.0.0.1")
	d.noGet("role", "127.0.0.1:7002", notReached)
	d.noGet("closed", "127.0.0.1:7001", notReached)
	d.noGet("plain", "127.0.0.1:7001", notReached)
	role, _ := d.agent("role")
	d.noGet("plain", role.Address+":7001", notReached) // and not through another agent

	// The refusal of a connection names the configuration key.
	d.noGet("plain", "host.docker.internal:7001", noSuchName)
	w := d.refusalOf("plain", "host.docker.internal")
	require.Equal(t, "curl", w.Program)
	require.Contains(t, w.Hint, "polisctl agents set plain --host-port PORT")
	require.Contains(t, d.sh("plain", "cat /run/polis/why"), "network.host_ports")
	d.noGet("plain", hostAddr+":7001", notReached)
	require.Contains(t, d.refusalOf("plain", hostAddr+":7001").Hint, "--host-port PORT")

	// A connection is audited, and the port is not mapped back to the host.
	d.eventually("the connection is an event", func() bool {
		return strings.Contains(d.must("--json", "events"), "agent own: curl connected to 127.0.0.1:7002 of the host")
	})
	d.serve("role", "0.0.0.0", 3000)
	d.eventually("another port is mapped", func() bool { _, ok := d.ports("role")[3000]; return ok })
	require.NotContains(t, d.ports("role"), 7001)
	require.Contains(t, d.refused(api.CodeBadRequest, "ports", "add", "role", "7001").Message, "host port")

	// The flag applies at once. A restart of polisd or of the agent keeps it, and so does the
	// configuration.
	set := func(agent string, args ...string) api.Agent {
		t.Helper()
		var res api.SetResponse
		require.NoError(t, json.Unmarshal([]byte(d.must(append([]string{"--json", "agents", "set", agent}, args...)...)), &res))
		require.Empty(t, res.Later)
		return res.Agent
	}
	require.Equal(t, []uint16{7003}, set("plain", "--host-port", "7003").HostPorts)
	d.gets("plain", "host.polis:7003", "host 127.0.0.1")
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.gets("plain", "127.0.0.1:7003", "host 127.0.0.1")
	d.must("agents", "stop", "plain")
	d.must("agents", "start", "plain")
	d.gets("plain", "127.0.0.1:7003", "host 127.0.0.1")
	require.Equal(t, "take 7003 out of network.host_ports first: polisctl agents set plain --host-port PORTS|none",
		d.refused(api.CodeBadRequest, "ports", "add", "plain", "7003").Hint)
	require.Equal(t, []uint16{7001, 7003}, set("plain", "--host-port", "+7001").HostPorts)
	require.Equal(t, []uint16{7001}, set("plain", "--host-port", "-7003").HostPorts)
	require.Contains(t, d.refused(api.CodeBadRequest, "agents", "set", "plain", "--host-port", "-7003").Message, "7003 is not a host port of the agent")
	require.Empty(t, set("plain", "--host-port", "none").HostPorts)
	d.must("ports", "add", "plain", "7003")
	d.must("ports", "remove", "plain", "7003")
	d.noGet("plain", "127.0.0.1:7003", notReached)
	require.Equal(t, []uint16{7001}, set("own", "--host-port", "default").HostPorts)
	d.noGet("own", "127.0.0.1:7002", notReached)
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), "host_ports = [7001]", "host_ports = [7003]", 1))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the configuration counts", func() bool { return d.get("role", "127.0.0.1:7003").code == 0 })
	d.noGet("role", "127.0.0.1:7001", notReached)

	// Invalid ports are refused, and nothing changes.
	e := d.refused(api.CodePortInUse, "agents", "set", "role", "--host-port", "7001,3000")
	require.Contains(t, e.Message+e.Hint, "3000")
	d.noGet("role", "127.0.0.1:7001", notReached)
	d.gets("role", "127.0.0.1:7003", "host 127.0.0.1")
	require.Contains(t, d.ctl("agents", "add", "bad", "--base", "custom", "--host-port", "0").stderr, "1 to 65535")
}
