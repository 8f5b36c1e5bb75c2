package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// onHost runs a program of an administrator on the test's host.
func (i *internet) onHost(args ...string) string {
	i.t.Helper()
	out, err := exec.Command("nsenter", append([]string{"--net=" + i.host}, args...)...).CombinedOutput()
	require.NoError(i.t, err, "%s: %s", strings.Join(args, " "), out)
	return string(out)
}

// checkOf is one check of doctor.
func (d *daemon) checkOf(name string) api.Check {
	d.t.Helper()
	var rep api.DoctorReport
	require.NoError(d.t, json.Unmarshal([]byte(d.ctl("--json", "doctor").stdout), &rep))
	for _, c := range rep.Checks {
		if c.Name == name {
			return c
		}
	}
	d.t.Fatalf("doctor has no check %q", name)
	return api.Check{}
}

// knock connects again and again, from inside of an agent, to addresses that it must not reach, and prints
// those that it reached.
const knock = `
import socket, sys, time
end = time.time() + float(sys.argv[1])
while time.time() < end:
    for at in sys.argv[2:]:
        host, port = at.rsplit(":", 1)
        s = socket.socket(); s.settimeout(0.05)
        try:
            s.connect((host, int(port))); print("reached", at, flush=True)
        except OSError: pass
        s.close()
`

// An administrator flushes the rules of the machine (systemctl restart nftables), with and without a polisd. No agent
// reaches at any moment what it must not, and those who may reach something do so again at once.
func TestFlushedRulesAreRestored(t *testing.T) {
	needProgram(t, "nft")
	world := newInternet(t)
	world.name("x.test", "203.0.113.1")
	world.web(world.in, "0.0.0.0:7000", "host")
	d := world.startBehind("", "[roles.closed.network]\negress = \"none\"\n[roles.named.network]\negress = [\"x.test\"]\n")
	d.up()
	d.add("closed", "--role", "closed")
	d.add("named", "--role", "named")
	free := d.add("free")
	d.serve("free", "0.0.0.0", 3000)
	require.Equal(t, api.CheckOK, d.checkOf("network of agents").State)
	d.gets("named", "x.test", "internet 203.0.113.1")

	targets := []string{hostAddr + ":7000", strings.Split(free.Address, "/")[0] + ":3000", "203.0.113.1:80"}
	knocking := func(seconds int) func() result {
		done := make(chan result, 1)
		go func() {
			done <- d.exec("closed", append([]string{"/usr/bin/python3", "-c", knock, fmt.Sprint(seconds)}, targets...)...)
		}()
		return func() result { return <-done }
	}
	wait := knocking(4)
	time.Sleep(time.Second)
	world.onHost("nft", "flush", "ruleset")
	start := time.Now()
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventNetwork)) > 0 })
	d.eventually("the agent with open egress", func() bool { return d.get("free", "203.0.113.1").code == 0 })
	require.Less(t, time.Since(start), patience/2)
	// Its name is open because its shim remembers it: the program need not ask again.
	r := d.exec("named", "curl", "-sS", "--max-time", "10", "--resolve", "x.test:80:203.0.113.1", "http://x.test/")
	require.Equal(t, "internet 203.0.113.1", strings.TrimSpace(r.stdout), r)
	require.Empty(t, wait().stdout, "no agent was open meanwhile")
	e := d.eventsOf(api.EventNetwork)[0]
	require.Equal(t, "nft", e.Data["by"], e)
	require.ElementsMatch(t, []any{"closed", "named", "free"}, e.Data["agents"], e)
	require.Empty(t, e.Code, e)
	require.Equal(t, api.CheckOK, d.checkOf("network of agents").State)
	d.noGet("closed", "203.0.113.1", notReached)
	require.Equal(t, "tcp connection", d.refusalOf("closed", "203.0.113.1:80").Op, "refusals are logged again")

	// Without a polisd the agents are closed, until the next one is there.
	require.Error(t, d.signal(syscall.SIGKILL))
	world.onHost("nft", "flush", "ruleset")
	require.False(t, world.reachedFrom(d, "closed", targets))
	d.start()
	d.eventually("the agent with open egress", func() bool { return d.get("free", "203.0.113.1").code == 0 })
	d.noGet("closed", "203.0.113.1", notReached)

	// An agent that comes restores the table; the others' rules must come back, too.
	before := len(d.eventsOf(api.EventNetwork))
	world.onHost("nft", "flush", "ruleset")
	d.add("newcomer")
	d.eventually("the agent with open egress", func() bool { return d.get("free", "203.0.113.1").code == 0 })
	d.gets("named", "x.test", "internet 203.0.113.1")
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventNetwork)) > before })
}

// reachedFrom reports whether an agent reaches one of the addresses while no polisd runs.
func (i *internet) reachedFrom(d *daemon, agent string, targets []string) bool {
	i.t.Helper()
	file := d.path("run", "netns", agent)
	out, err := exec.Command("nsenter", append([]string{"--net=" + file, "/usr/bin/python3", "-c", knock, "1"}, targets...)...).CombinedOutput()
	require.NoError(i.t, err, string(out))
	return strings.Contains(string(out), "reached")
}

// Other things that others change come back by themselves, and doctor reports that all is well again.
func TestTheAgentsNetworkIsRestored(t *testing.T) {
	needProgram(t, "nft")
	world := newInternet(t)
	d := world.startBehind("", "")
	d.up()
	a := d.add("alice")
	link, bridge := world.linkOf(a.Name), ""
	for _, f := range strings.Fields(world.onHost("ip", "-o", "link", "show", "type", "bridge")) {
		if strings.HasPrefix(f, "pl") {
			bridge = strings.TrimSuffix(f, ":")
		}
	}
	require.NotEmpty(t, bridge)
	for name, change := range map[string][]string{
		"address": {"ip", "addr", "flush", "dev", bridge}, "bridge down": {"ip", "link", "set", bridge, "down"},
		"forwarding": {"sysctl", "-qw", "net.ipv4.ip_forward=0"}, "link down": {"ip", "link", "set", link, "down"},
		"link gone": {"ip", "link", "del", link}, "bridge gone": {"ip", "link", "del", bridge},
	} {
		before := len(d.eventsOf(api.EventNetwork))
		world.onHost(change...)
		d.eventually(name+": the agent reaches the internet", func() bool { return d.get("alice", "203.0.113.1").code == 0 })
		d.eventually(name+": the event", func() bool { return len(d.eventsOf(api.EventNetwork)) > before })
		require.Equal(t, api.CheckOK, d.checkOf("network of agents").State, name)
	}
}

// OpenVPN divides the default route; a tunnel with a table of its own (wg-quick) is narrower than the machine's link.
func TestAgentsBehindAVPN(t *testing.T) {
	world := newInternet(t)
	world.onHost("ip", "route", "add", "0.0.0.0/1", "via", "198.51.100.1")
	world.onHost("ip", "route", "add", "128.0.0.0/1", "via", "198.51.100.1")
	d := world.startBehind("", "")
	d.up()
	d.add("alice")
	require.Zero(t, d.get("alice", "203.0.113.1").code)
	mtu := func() string { return strings.TrimSpace(d.sh("alice", "cat /sys/class/net/eth0/mtu")) }
	require.Equal(t, "1500", mtu())
	world.onHost("ip", "route", "add", "default", "via", "198.51.100.1", "mtu", "1400", "table", "51820")
	world.onHost("ip", "rule", "add", "table", "51820", "pref", "5000")
	d.eventually("the agent's link follows", func() bool { return mtu() == "1400" })
	d.eventually("alice reaches the internet", func() bool { return d.get("alice", "203.0.113.1").code == 0 })
	c := d.checkOf("routes")
	require.Equal(t, api.CheckOK, c.State, c)
	require.Contains(t, c.Found, "up0, MTU 1400")
}

// linkOf is the host's end of an agent's link.
func (i *internet) linkOf(agent string) string {
	i.t.Helper()
	for line := range strings.Lines(i.onHost("ip", "-o", "link")) {
		if strings.Contains(line, "agent="+agent+" ") {
			return strings.SplitN(strings.Fields(line)[1], "@", 2)[0]
		}
	}
	i.t.Fatalf("agent %s has no link", agent)
	return ""
}

// beforeBarrier is the last commit whose polisd knows no filter of the bridge.
const beforeBarrier = "b392e0bb"

// A polisd of an earlier version continues with the agents of a later one, and those have a network.
func TestAnOlderPolisdHasTheNetwork(t *testing.T) {
	older := olderPrograms(t, beforeBarrier)
	if older == "" {
		t.Log("there is no history here to build the older polisd from")
		return
	}
	world := newInternet(t)
	d := world.startBehind("", "")
	d.up()
	d.add("alice")
	require.Equal(t, wire.Version, d.shimStatus("alice").Version)
	d.eventually("alice reaches the internet", func() bool { return d.get("alice", "203.0.113.1").code == 0 })
	current, config := d.bin, readFile(d.path("polisd.toml"))
	require.Error(t, d.signal(syscall.SIGKILL))
	d.write("polisd.toml", strings.Replace(config, current, older, 1))
	d.bin = older
	d.start()
	d.add("bob")
	for _, agent := range []string{"alice", "bob"} {
		d.eventually(agent+" reaches the internet", func() bool { return d.get(agent, "203.0.113.1").code == 0 })
	}

	require.Error(t, d.signal(syscall.SIGKILL))
	d.write("polisd.toml", config)
	d.bin = current
	d.start()
	require.Equal(t, api.CheckOK, d.checkOf("network of agents").State)
	for _, agent := range []string{"alice", "bob"} {
		d.eventually(agent+" reaches the internet", func() bool { return d.get(agent, "203.0.113.1").code == 0 })
	}
	// The older shim's rules are restored, too.
	world.onHost("nft", "flush", "ruleset")
	for _, agent := range []string{"alice", "bob"} {
		d.eventually(agent+" reaches the internet", func() bool { return d.get(agent, "203.0.113.1").code == 0 })
	}
}
