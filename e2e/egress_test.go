package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// get fetches http://HOST/ in an agent with curl.
func (d *daemon) get(agent, host string) result {
	d.t.Helper()
	return d.exec(agent, "curl", "-sS", "--max-time", "10", "http://"+host+"/")
}

func (d *daemon) gets(agent, host, want string) {
	d.t.Helper()
	r := d.get(agent, host)
	require.Zero(d.t, r.code, "%s: %s", host, r)
	require.Equal(d.t, want, strings.TrimSpace(r.stdout), host)
}

// curl's exit codes.
const (
	noSuchName = 6
	notReached = 7
)

func (d *daemon) noGet(agent, host string, code int) {
	d.t.Helper()
	start := time.Now()
	r := d.get(agent, host)
	require.Equal(d.t, code, r.code, "%s: %s", host, r)
	require.Less(d.t, time.Since(start), patience/10, "%s: refused, not left to a time-out", host)
}

func (d *daemon) refusals(agent string) []api.WhyEntry {
	d.t.Helper()
	var out []api.WhyEntry
	text := d.must("--json", "agents", "why", agent)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		var in struct {
			Why []api.WhyEntry `json:"why"`
		}
		require.NoError(d.t, json.Unmarshal([]byte(text), &in), text)
		out = in.Why
	}
	return out
}

func (d *daemon) refusalOf(agent, path string) api.WhyEntry {
	d.t.Helper()
	for _, w := range d.refusals(agent) {
		if strings.HasPrefix(w.Path, path) {
			return w
		}
	}
	d.t.Fatalf("nothing was refused about %s: %v", path, d.refusals(agent))
	return api.WhyEntry{}
}

func TestAllowedNamesOpenTheirAddresses(t *testing.T) {
	world := newInternet(t)
	world.name("api.x.test", "203.0.113.1", "2001:db8:2::1")
	world.name("x.test", "203.0.113.1")
	world.name("deep.cdn.y.test", "203.0.113.2")
	world.name("alias.y.test", "CNAME edge.z.test", "203.0.113.3")
	world.name("edge.z.test", "203.0.113.3")
	world.name("evil.test", "203.0.113.2")
	world.name("rebind.x.test", "10.1.2.3")
	world.name("meta.x.test", "169.254.169.254")
	world.name("me.x.test", hostAddr)
	d := world.startBehind("egress = [\"*.x.test\", \"*.Y.test.\"]\n", "")
	d.up()
	a := d.add("names")
	require.Equal(t, []string{"*.x.test", "*.y.test"}, a.Egress)

	d.gets("names", "api.x.test", "internet 203.0.113.1")
	d.gets("names", "DEEP.cdn.Y.test", "internet 203.0.113.2")
	d.gets("names", "alias.y.test", "internet 203.0.113.3")
	require.Equal(t, "203.0.113.1", strings.Fields(d.must("agents", "exec", "names", "--", "getent", "ahosts", "api.x.test"))[0])
	require.NotContains(t, d.must("agents", "exec", "names", "--", "getent", "ahosts", "api.x.test"), "2001:", "an agent has no IPv6")

	for _, name := range []string{"x.test", "evil.test", "edge.z.test", "api.x.test.evil.test", "nowhere.test"} {
		d.noGet("names", name, noSuchName)
		require.Zero(t, world.questions(name), "%s does not leave the machine", name)
	}
	for _, name := range []string{"rebind.x.test", "meta.x.test", "me.x.test"} {
		d.noGet("names", name, noSuchName)
		require.NotZero(t, world.questions(name))
	}
	w := d.refusalOf("names", "evil.test")
	require.Equal(t, api.CodeEgressDenied, w.Code)
	require.Equal(t, "name lookup", w.Op)
	require.Equal(t, "curl", w.Program)
	require.NotZero(t, w.Pid)
	require.Contains(t, w.Hint, "polisctl agents set names --egress '+evil.test'")
	require.Contains(t, d.refusalOf("names", "rebind.x.test (10.1.2.3)").Hint, "allow_private")
	require.Contains(t, d.refusalOf("names", "meta.x.test (169.254.169.254)").Hint, "no setting allows it")

	// An address is not reachable without its name, and the name not by another resolver.
	for _, addr := range []string{"198.51.100.1", "169.254.169.254", "10.1.2.3", "[2001:db8:2::1]", "[fd00:ec2::254]"} {
		d.noGet("names", addr, notReached)
	}
	w = d.refusalOf("names", "198.51.100.1:80")
	require.Equal(t, "tcp connection", w.Op)
	require.Equal(t, "ECONNREFUSED", w.Errno)
	require.Equal(t, "curl", w.Program)
	require.Contains(t, w.Hint, "198.51.100.1")
	d.must("agents", "exec", "names", "--", "/usr/bin/python3", "-c", fmt.Sprintf(
		"import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', (%q, 53)); import time; time.sleep(1)", dnsAddr))
	d.eventually("the datagram is reported", func() bool {
		for _, w := range d.refusals("names") {
			if w.Path == dnsAddr+":53" && w.Op == "udp connection" {
				return strings.HasPrefix(w.Program, "python3")
			}
		}
		return false
	})

	// The agent gets the reason, and the events report it.
	text := d.sh("names", "cat /run/polis/why")
	require.Contains(t, text, "name lookup of evil.test was refused: EGRESS_DENIED")
	require.Contains(t, text, "asked by:  curl")
	require.Contains(t, text, "do next:")
	require.Contains(t, d.must("--json", "events"), `"EGRESS_DENIED"`)
	require.Contains(t, d.must("agents", "why", "names"), "asked by curl")
}

func TestEgressOpenAndNone(t *testing.T) {
	world := newInternet(t)
	world.name("x.test", "203.0.113.1")
	world.name("inner.test", "10.1.2.3")
	for _, bind := range []string{"0.0.0.0:7000", "127.0.0.1:7001", "[::]:7002"} {
		world.web(world.in, bind, "host")
	}
	d := world.startBehind("", "[roles.shut.network]\negress = \"none\"\n[roles.inner.network]\nallow_private = [\"10.1.0.0/16\"]\n[roles.list.network]\negress = [\"203.0.113.2\", \"x.test\"]\n"+
		"[roles.both.network]\nallow_private = [\"10.1.0.0/16\"]\negress = [\"x.test\"]\n")
	d.up()
	require.Equal(t, []string{"open"}, d.add("wide").Egress)
	require.Equal(t, []string{"none"}, d.add("shut", "--role", "shut").Egress)
	require.Equal(t, []string{"open"}, d.add("inner", "--role", "inner").Egress)
	require.Equal(t, []string{"203.0.113.2", "x.test"}, d.add("list", "--role", "list").Egress)
	own := d.add("own", "--role", "shut", "--egress", "203.0.113.3")
	require.Equal(t, []string{"203.0.113.3"}, own.Egress)

	d.gets("wide", "x.test", "internet 203.0.113.1")
	d.gets("wide", "203.0.113.2", "internet 203.0.113.2")
	d.noGet("wide", "10.1.2.3", notReached)
	d.noGet("wide", "inner.test", noSuchName)
	require.Contains(t, d.refusalOf("wide", "10.1.2.3:80").Hint, "allow_private")
	d.gets("inner", "inner.test", "internet 10.1.2.3")
	d.gets("list", "203.0.113.2", "internet 203.0.113.2")
	d.noGet("list", "203.0.113.3", notReached)
	d.add("both", "--role", "both")
	d.noGet("both", "10.1.2.3", notReached)
	require.Contains(t, d.refusalOf("both", "10.1.2.3:80").Hint, "--egress '+10.1.2.3'", "allow_private has it already; the list lacks it")
	d.gets("own", "203.0.113.3", "internet 203.0.113.3")
	d.noGet("own", "x.test", noSuchName)
	d.noGet("shut", "x.test", noSuchName)
	d.noGet("shut", "203.0.113.1", notReached)
	require.Contains(t, d.refusalOf("shut", "203.0.113.1:80").Hint, "--egress '+203.0.113.1'")

	// Under every policy the host, other agents and metadata services are not reachable.
	d.serve("shut", "0.0.0.0", 3000)
	d.eventually("shut serves itself", func() bool { return d.get("shut", "127.0.0.1:3000").code == 0 })
	shut, ok := d.agent("shut")
	require.True(t, ok)
	for _, agent := range []string{"wide", "inner", "list", "shut"} {
		for _, to := range []string{hostAddr + ":7000", "10.236.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7000", hostAddr + ":7002",
			"169.254.169.254", "[fd00:ec2::254]", "[2001:db8:1::2]:7002", "[::1]:7002"} {
			d.noGet(agent, to, notReached)
		}
	}
	for _, agent := range []string{"wide", "inner", "list"} {
		d.noGet(agent, shut.Address+":3000", notReached)
	}
	require.Contains(t, d.refusalOf("wide", "169.254.169.254:80").Hint, "no setting allows it")

	// Invalid values are refused, with the reason.
	e := d.refused(api.CodeBadRequest, "agents", "add", "bad", "--base", "custom", "--egress", "https://x.test")
	require.Contains(t, e.Message, "without scheme")
	e = d.refused(api.CodeBadRequest, "agents", "set", "wide", "--egress", "+x.test")
	require.Contains(t, e.Message, `the list is "open"`)
	e = d.refused(api.CodeBadRequest, "agents", "set", "wide", "--egress", "open,x.test")
	require.Contains(t, e.Message, "must stand alone")
}

func TestEgressChangesAtOnce(t *testing.T) {
	world := newInternet(t)
	world.name("x.test", "203.0.113.1")
	world.name("y.test", "203.0.113.2")
	d := world.startBehind("", "")
	d.up()
	d.add("agent")
	d.gets("agent", "x.test", "internet 203.0.113.1")

	// One connection each, which writes a line every tenth of a second.
	d.sh("agent", `cat > $HOME/talk.py <<'P'
import socket, sys, time
s = socket.create_connection((sys.argv[1], 80), 5)
out = open(sys.argv[2], "w")
try:
    while True:
        s.sendall(b"x"); assert s.recv(1) == b"x"
        out.write("+"); out.flush(); time.sleep(0.1)
except OSError as e:
    out.write(" " + type(e).__name__); out.flush()
P
for n in x y; do setsid /usr/bin/python3 $HOME/talk.py $n.test $HOME/$n.log >/dev/null 2>&1 </dev/null & done`)
	log := func(n string) string { return d.sh("agent", "cat $HOME/"+n+".log 2>/dev/null || true") }
	for _, n := range []string{"x", "y"} {
		d.eventually(n+" talks", func() bool { return strings.HasPrefix(log(n), "++") })
	}
	set := func(args ...string) api.Agent {
		t.Helper()
		var res api.SetResponse
		require.NoError(t, json.Unmarshal([]byte(d.must(append([]string{"--json", "agents", "set", "agent"}, args...)...)), &res))
		require.Empty(t, res.Later)
		return res.Agent
	}
	require.Equal(t, []string{"x.test"}, set("--egress", "x.test").Egress)
	d.eventually("y is cut", func() bool { return strings.Contains(log("y"), "Error") })
	before := len(log("x"))
	d.eventually("x continues", func() bool { return len(log("x")) > before+3 })
	require.NotContains(t, log("x"), "Error")
	d.gets("agent", "x.test", "internet 203.0.113.1")
	d.gets("agent", "203.0.113.1", "internet 203.0.113.1") // told for the name
	d.noGet("agent", "y.test", noSuchName)
	d.noGet("agent", "203.0.113.2", notReached)

	// A crash and restart of the daemon changes nothing.
	require.Error(t, d.signal(syscall.SIGKILL))
	before = len(log2(d, "x"))
	d.eventually("x continues without a daemon", func() bool { return len(log2(d, "x")) > before+3 })
	d.start()
	d.gets("agent", "203.0.113.1", "internet 203.0.113.1")
	d.noGet("agent", "203.0.113.2", notReached)
	d.add("another") // puts all rules in place again
	d.gets("agent", "203.0.113.1", "internet 203.0.113.1")
	require.NotContains(t, log("x"), "Error")
	a, _ := d.agent("agent")
	require.Equal(t, []string{"x.test"}, a.Egress)

	// A name is added to the list, as the hint of a refusal says, and taken from it again.
	require.Contains(t, d.refusalOf("agent", "y.test").Hint, "agents set agent --egress '+y.test'")
	require.Equal(t, []string{"x.test", "y.test"}, set("--egress", "+y.test").Egress)
	d.gets("agent", "y.test", "internet 203.0.113.2")
	require.Equal(t, []string{"x.test"}, set("--egress", "-y.test").Egress)
	d.noGet("agent", "y.test", noSuchName)
	for _, words := range []string{"+y.test,z.test", "-y.test", "+open"} {
		d.refused(api.CodeBadRequest, "agents", "set", "agent", "--egress", words)
	}
	require.Equal(t, []string{"none"}, set("--egress", "none").Egress)
	d.eventually("x is cut", func() bool { return strings.Contains(log("x"), "Error") })
	d.noGet("agent", "x.test", noSuchName)
	require.Equal(t, []string{"open"}, set("--egress", "default").Egress)
	d.gets("agent", "y.test", "internet 203.0.113.2")

	// An agent without egress of its own follows a reloaded configuration. An agent with egress of
	// its own does not. A stop and start changes nothing.
	set("--egress", "y.test")
	text := strings.Replace(readFile(d.path("polisd.toml")), "[network]\n", "[network]\negress = \"none\"\n", 1)
	d.write("polisd.toml", text)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the configuration counts", func() bool { return d.get("another", "y.test").code == noSuchName })
	d.gets("agent", "y.test", "internet 203.0.113.2")
	d.must("agents", "stop", "agent")
	d.must("agents", "start", "agent")
	d.gets("agent", "y.test", "internet 203.0.113.2")
	d.noGet("agent", "x.test", noSuchName)
	d.noGet("agent", "203.0.113.1", notReached)
}

// log2 reads an agent's file on the host, which needs no daemon.
func log2(d *daemon, n string) string {
	for _, f := range glob(d.path("ws", ".polis", "homes", "agent", n+".log")) {
		b, _ := os.ReadFile(f)
		return string(b)
	}
	return ""
}
