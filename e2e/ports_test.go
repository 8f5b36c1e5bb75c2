package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// echoUDP starts a UDP server in an agent, which answers with its name, its
// bind and what it was sent; stop ends it.
func (d *daemon) echoUDP(agent, bind string, port int) (stop func()) {
	d.t.Helper()
	family := "AF_INET"
	if strings.Contains(bind, ":") {
		family = "AF_INET6"
	}
	name := fmt.Sprintf("udp%d-%d", port, len(bind))
	d.sh(agent, fmt.Sprintf(`cat > $HOME/%[1]s.py <<'P'
import os, socket
s = socket.socket(socket.%[2]s, socket.SOCK_DGRAM)
s.bind(("%[3]s", %[4]d))
open(os.environ["HOME"] + "/%[1]s.pid", "w").write(str(os.getpid()))
while True:
    b, a = s.recvfrom(65535)
    s.sendto(b"%[5]s %[3]s " + b, a)
P
setsid /usr/bin/python3 $HOME/%[1]s.py >/dev/null 2>&1 </dev/null &
while [ ! -s $HOME/%[1]s.pid ]; do sleep 0.02; done`, name, family, bind, port, agent))
	return func() { d.sh(agent, fmt.Sprintf("kill $(cat $HOME/%s.pid); rm $HOME/%[1]s.pid", name)) }
}

// stopServe ends a web server that serve started.
func (d *daemon) stopServe(agent string, port int) {
	d.t.Helper()
	d.sh(agent, fmt.Sprintf("pkill -f '[s]erve%d.py'", port))
}

// askUDP sends one datagram and returns the answer.
func askUDP(host string, port int, text string) string {
	c, err := net.DialTimeout("udp", net.JoinHostPort(host, strconv.Itoa(port)), time.Second)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte(text)); err != nil {
		return err.Error()
	}
	b := make([]byte, 65535)
	n, err := c.Read(b)
	if err != nil {
		return err.Error()
	}
	return string(b[:n])
}

// mapOf returns the map of an agent's port, if it has one.
func (d *daemon) mapOf(agent, protocol string, internal int) (api.PortMapping, bool) {
	d.t.Helper()
	var list struct{ Ports []api.PortMapping }
	decode(d.t, d.must("--json", "ports", "list", agent), &list)
	i := slices.IndexFunc(list.Ports, func(p api.PortMapping) bool { return p.Protocol == protocol && p.Internal == internal })
	if i < 0 {
		return api.PortMapping{}, false
	}
	return list.Ports[i], true
}

func (d *daemon) mapped(agent, protocol string, internal int) api.PortMapping {
	d.t.Helper()
	var m api.PortMapping
	d.eventually(fmt.Sprintf("%s's port %d/%s to be mapped", agent, internal, protocol), func() bool {
		var ok bool
		m, ok = d.mapOf(agent, protocol, internal)
		return ok
	})
	return m
}

func (d *daemon) unmapped(agent, protocol string, internal int) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("%s's port %d/%s to be mapped no more", agent, internal, protocol), func() bool {
		_, ok := d.mapOf(agent, protocol, internal)
		return !ok
	})
}

func TestUDPPortsAreMapped(t *testing.T) {
	d := startDaemon(t, options{config: "[network]\nports = \"3401-3499\"\npool = \"10.239.0.0/16\"\n"})
	d.up()
	a := d.add("alice", "--port", "5000/udp", "--port", "5000")
	require.Len(t, a.PortMappings, 2)
	require.Equal(t, a.PortMappings[0].External, a.PortMappings[1].External, "one number for both protocols of a port")
	m, _ := d.mapOf("alice", "udp", 5000)
	for _, bind := range []string{"127.0.0.1", "::1", "0.0.0.0", "::"} {
		stop := d.echoUDP("alice", bind, 5000)
		d.eventually("an answer of "+bind, func() bool {
			return askUDP("127.0.0.1", m.External, "hello") == "alice "+bind+" hello"
		})
		stop()
	}
	// Large datagrams and many peers.
	stop := d.echoUDP("alice", "127.0.0.1", 5000)
	d.eventually("a large answer", func() bool {
		big := strings.Repeat("x", 60000)
		return askUDP("127.0.0.1", m.External, big) == "alice 127.0.0.1 "+big
	})
	for i := range 300 {
		want := fmt.Sprintf("alice 127.0.0.1 %d", i)
		got := askUDP("127.0.0.1", m.External, strconv.Itoa(i))
		for tries := 0; tries < 2 && got != want; tries++ { // a busy machine may drop a datagram
			got = askUDP("127.0.0.1", m.External, strconv.Itoa(i))
		}
		require.Equal(t, want, got)
	}
	stop()

	// By hand, bound elsewhere.
	var added api.PortsAdded
	decode(t, d.must("--json", "ports", "add", "alice", "6000/udp", "3477", "--bind", "::1"), &added)
	require.Equal(t, api.PortMapping{Agent: "alice", Internal: 6000, External: 3477, Protocol: "udp", Bind: "::1", Served: true}, added.PortMapping)
	d.echoUDP("alice", "::1", 6000)
	d.eventually("an answer on ::1", func() bool { return askUDP("::1", 3477, "x") == "alice ::1 x" })
	require.NotContains(t, askUDP("127.0.0.1", 3477, "x"), "alice")

	// A server without a map is noticed; a client is not.
	d.echoUDP("alice", "127.0.0.1", 7000)
	auto := d.mapped("alice", "udp", 7000)
	require.True(t, auto.Auto)
	d.eventually("an answer of it", func() bool { return askUDP("127.0.0.1", auto.External, "y") == "alice 127.0.0.1 y" })
	d.sh("alice", `python3 - <<'P'
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("127.0.0.1", 9)); time.sleep(1.5)
P`)
	var list struct{ Ports []api.PortMapping }
	decode(t, d.must("--json", "ports", "list"), &list)
	for _, p := range list.Ports {
		require.Less(t, p.Internal, 32768, "a client's socket was mapped")
	}

	d.must("ports", "remove", "alice", "5000/udp")
	require.NotContains(t, askUDP("127.0.0.1", m.External, "x"), "alice")
	_, tcp := d.mapOf("alice", "tcp", 5000)
	require.True(t, tcp, "the other protocol stays")
	e := d.refused(api.CodePortNotFound, "ports", "remove", "alice", "6000")
	require.Contains(t, e.Hint, "6000/udp")
}

func TestMapsAreBoundToTheGivenAddress(t *testing.T) {
	d := startDaemon(t, options{config: "[network]\nports = \"3501-3599\"\npool = \"10.239.0.0/16\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.serve("alice", "127.0.0.1", 3000)
	d.unmap("alice", 3000)
	get := func(host string, port int) bool {
		got, err := fetch("http://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/")
		return err == nil && got == "alice 127.0.0.1"
	}
	for bind, hosts := range map[string][]string{"0.0.0.0": {"127.0.0.1"}, "::": {"127.0.0.1", "::1"}, "::1": {"::1"}, "127.0.0.1": {"127.0.0.1"}} {
		var added api.PortsAdded
		decode(t, d.must("--json", "ports", "add", "alice", "3000", "--bind", bind), &added)
		require.Equal(t, bind, added.Bind)
		for _, h := range hosts {
			d.eventually("alice by "+h, func() bool { return get(h, added.External) })
		}
		require.Equal(t, bind != "::1", get("127.0.0.1", added.External))
		// A port that is open to the network is not open to agents.
		gateway := strings.TrimSpace(d.sh("bob", "ip -4 route show default 2>/dev/null | awk '{print $3}'"))
		for _, host := range append(hostAddresses(t), gateway) {
			r := d.exec("bob", "/usr/bin/python3", "-c", fmt.Sprintf("import socket; socket.create_connection((%q,%d),1.5)", host, added.External))
			require.NotZero(t, r.code, "bob reached alice by %s", host)
		}
		d.must("ports", "remove", "alice", "3000")
	}
	e := d.refused(api.CodeBadRequest, "ports", "add", "alice", "3000", "--bind", "192.0.2.77")
	require.Contains(t, e.Message, "not an address of this host")
	// The agent's restart keeps the bind.
	d.must("ports", "add", "alice", "3000", "3555", "--bind", "::1")
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	d.serve("alice", "127.0.0.1", 3000)
	d.eventually("alice on ::1", func() bool { return get("::1", 3555) })
}

// unmap waits for an automatic map of a port, and removes it.
func (d *daemon) unmap(agent string, port int) {
	d.t.Helper()
	d.mapped(agent, "tcp", port)
	d.must("ports", "remove", agent, strconv.Itoa(port))
}

func TestRangesAreMappedAsAWholeOrNotAtAll(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:3605")
	if err != nil {
		t.Skip("port 3605 is in use here")
	}
	defer l.Close()
	d := startDaemon(t, options{config: "[network]\nports = \"3601-3620\"\nauto_map = false\npool = \"10.238.0.0/16\"\n"})
	d.up()
	d.add("alice", "--port", "9000-9001/udp")
	var added api.PortsAdded
	decode(t, d.must("--json", "ports", "add", "alice", "8000-8009"), &added)
	require.Len(t, added.Ports, 10)
	for i, p := range added.Ports {
		require.Equal(t, []int{8000 + i, 3606 + i}, []int{p.Internal, p.External}, "in a row, beside what is taken")
	}
	d.serve("alice", "127.0.0.1", 8009)
	d.fetchEventually(3615, "alice 127.0.0.1")

	e := d.refused(api.CodeNoPorts, "ports", "add", "alice", "7000-7009")
	require.Contains(t, e.Hint, "ports remove alice")
	e = d.refused(api.CodePortInUse, "ports", "add", "alice", "7999-8000")
	require.Contains(t, e.Message, "8000")
	d.refused(api.CodeBadRequest, "ports", "add", "alice", "7000-7005", "3618")
	d.refused(api.CodePortNotFound, "ports", "remove", "alice", "7999-8001")
	var list struct{ Ports []api.PortMapping }
	decode(t, d.must("--json", "ports", "list"), &list)
	require.Len(t, list.Ports, 12, "a refusal changes nothing")
	d.must("ports", "remove", "alice", "8000-8009")
	decode(t, d.must("--json", "ports", "list"), &list)
	require.Len(t, list.Ports, 2)
}

func TestAMapOfATakenPortMovesAndIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:3703")
	if err != nil {
		t.Skip("port 3703 is in use here")
	}
	defer l.Close()
	d := startDaemon(t, options{config: "[network]\nports = \"3701-3705\"\nauto_map = false\npool = \"10.238.0.0/16\"\n"})
	d.up()
	d.add("alice", "--port", "3000")
	d.add("bob")
	r := d.ctl("ports", "add", "alice", "4000", "3703")
	require.Zero(t, r.code, r)
	require.Contains(t, r.stdout, "port 4000 of agent alice is at 127.0.0.1:3704")
	require.Contains(t, r.stdout, "port 3703 of the host is in use")
	var added api.PortsAdded
	decode(t, d.must("--json", "ports", "add", "bob", "3000", "3701"), &added)
	require.Equal(t, []int{3702, 3701}, []int{added.External, added.Wanted}, "another agent's port")
	d.must("ports", "add", "bob", "1")
	d.must("agents", "stop", "bob")
	e := d.refused(api.CodeNoPorts, "ports", "add", "alice", "5000")
	require.Contains(t, e.Hint, "polisctl ports remove bob 3000", "an unused map is named first")
	require.Contains(t, e.Hint, "not running")
	d.must("ports", "remove", "bob", "3000")
	d.must("ports", "add", "alice", "5000")
	e = d.refused(api.CodeNoPorts, "agents", "add", "carol", "--base", "custom", "--port", "1", "--port", "2")
	require.NotEmpty(t, e.Hint)
	_, there := d.agent("carol")
	require.False(t, there)
}

// TestExternalPortsAreStable: servers get the external ports they had before, whatever is
// restarted, and whichever agents take ports meanwhile.
func TestExternalPortsAreStable(t *testing.T) {
	d := startDaemon(t, options{config: "[network]\nports = \"3801-3899\"\npool = \"10.238.0.0/16\"\n"})
	d.up()
	d.add("zoe", "--port", "1000")
	d.add("alice", "--port", "2000")
	serve := func() {
		d.serve("alice", "127.0.0.1", 3000)
		d.echoUDP("alice", "127.0.0.1", 3000)
	}
	serve()
	static, tcp, udp := d.mapped("alice", "tcp", 2000), d.mapped("alice", "tcp", 3000), d.mapped("alice", "udp", 3000)
	require.True(t, tcp.Auto && udp.Auto && !static.Auto)
	same := func(after string) {
		t.Helper()
		require.Equal(t, []api.PortMapping{static, tcp, udp}, []api.PortMapping{d.mapped("alice", "tcp", 2000), d.mapped("alice", "tcp", 3000), d.mapped("alice", "udp", 3000)}, after)
		d.fetchEventually(tcp.External, "alice 127.0.0.1")
	}

	d.stopServe("alice", 3000)
	d.unmapped("alice", "tcp", 3000)
	d.must("ports", "remove", "zoe", "1000")
	for i := range 5 { // new agents, which get the lowest ports that are not remembered for another
		d.must("ports", "add", "zoe", strconv.Itoa(5000+i))
	}
	d.serve("alice", "127.0.0.1", 3000)
	same("its own restart")

	d.must("agents", "stop", "alice")
	d.unmapped("alice", "tcp", 3000)
	closed, _ := d.mapOf("alice", "tcp", 2000)
	require.False(t, closed.Served)
	d.must("ports", "add", "zoe", "6000")
	d.must("agents", "start", "alice")
	serve()
	same("the agent's restart")

	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	same("polisd's crash")

	d.stop()
	d.start()
	d.must("ports", "add", "zoe", "7000")
	serve()
	same("polisd's stop and start")

	// As after a power failure: no process is alive, and the state is as it was written.
	require.Error(t, d.signal(syscall.SIGKILL))
	d.killShims()
	d.start()
	d.must("ports", "add", "zoe", "8000")
	d.must("agents", "start", "alice")
	serve()
	same("the machine's end")

	// Another program takes the ports meanwhile. The map moves to another port, permanently, and an
	// event reports it.
	d.must("agents", "stop", "alice")
	l1, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", static.External))
	require.NoError(t, err)
	l2, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", tcp.External))
	require.NoError(t, err)
	d.must("agents", "start", "alice")
	serve()
	moved, movedTCP := d.mapped("alice", "tcp", 2000), d.mapped("alice", "tcp", 3000)
	require.NotEqual(t, static.External, moved.External)
	require.NotEqual(t, tcp.External, movedTCP.External)
	require.Equal(t, udp, d.mapped("alice", "udp", 3000), "only what was taken moves")
	d.eventually("both moves are events", func() bool {
		said := d.must("--json", "events")
		return strings.Contains(said, fmt.Sprintf("port 2000 of agent alice is reachable at 127.0.0.1:%d, because port %d is in use", moved.External, static.External)) &&
			strings.Contains(said, fmt.Sprintf("because port %d is in use", tcp.External))
	})
	require.NoError(t, l1.Close())
	require.NoError(t, l2.Close())
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, moved.External, d.mapped("alice", "tcp", 2000).External)

	// Removed and restored.
	d.must("agents", "remove", "alice", "--force")
	d.must("ports", "add", "zoe", "9000")
	d.must("restore", "alice")
	require.Equal(t, moved.External, d.mapped("alice", "tcp", 2000).External)
}

// killShims ends the shims as a power cut does.
func (d *daemon) killShims() {
	d.t.Helper()
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		args := strings.Split(readFile(f), "\x00")
		if len(args) > 2 && strings.HasSuffix(args[0], "polis-shim") && strings.HasPrefix(args[2], d.dir+"/") {
			pid, err := strconv.Atoi(strings.Split(f, "/")[2])
			require.NoError(d.t, err)
			require.NoError(d.t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	d.eventually("the shims to end", func() bool { return d.living() == 0 })
}

func TestListenersAreMappedWithinASecondAndUnmapped(t *testing.T) {
	d := startDaemon(t, options{config: "[network]\nports = \"3901-3999\"\npool = \"10.238.0.0/16\"\n"})
	d.up()
	d.add("alice")
	w := d.background("--json", "ports", "list", "--watch")
	// The sandbox reports a listener. The map exists when the event arrives.
	for _, proto := range []string{"SOCK_STREAM", "SOCK_DGRAM"} {
		opened := strings.TrimSpace(d.sh("alice", fmt.Sprintf(`cat > $HOME/l.py <<'P'
import socket, sys, time
s = socket.socket(socket.AF_INET6, socket.%s); s.bind(("::1", 4321))
if "%[1]s" == "SOCK_STREAM": s.listen()
open(sys.argv[1], "w").write(repr(time.time()))
time.sleep(600)
P
rm -f $HOME/at; setsid python3 $HOME/l.py $HOME/at >/dev/null 2>&1 </dev/null &
while [ ! -s $HOME/at ]; do sleep 0.01; done; cat $HOME/at`, proto)))
		at, err := strconv.ParseFloat(opened, 64)
		require.NoError(t, err)
		protocol := map[string]string{"SOCK_STREAM": "tcp", "SOCK_DGRAM": "udp"}[proto]
		mapped := d.eventTime(fmt.Sprintf("port 4321%s of agent alice is reachable", map[string]string{"tcp": "", "udp": "/udp"}[protocol]))
		took := time.Duration((float64(mapped.UnixNano())/1e9 - at) * 1e9)
		t.Logf("%s: mapped %v after it listened", protocol, took)
		require.Less(t, took, patience/10, "within a second on a machine that is not busy")
		w.sees(fmt.Sprintf(`"internal":4321,"external":3901,"protocol":%q`, protocol))
	}
	d.sh("alice", "pkill -f '[l].py'")
	d.unmapped("alice", "tcp", 4321)
	d.unmapped("alice", "udp", 4321)
	w.sees(`"change":"removed"`)

	// The user removes one: it stays away until it is added again.
	d.serve("alice", "127.0.0.1", 3000)
	d.unmap("alice", 3000)
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	time.Sleep(time.Second)
	_, there := d.mapOf("alice", "tcp", 3000)
	require.False(t, there)
	d.must("ports", "add", "alice", "3000")
	// A map that was found automatically stays where it is when a user requests it.
	d.serve("alice", "127.0.0.1", 3333)
	auto := d.mapped("alice", "tcp", 3333)
	var added api.PortsAdded
	decode(t, d.must("--json", "ports", "add", "alice", "3333"), &added)
	require.Equal(t, auto.External, added.External)
	d.stopServe("alice", 3333)
	time.Sleep(4500 * time.Millisecond) // longer than a listener may be away
	kept, there := d.mapOf("alice", "tcp", 3333)
	require.True(t, there && !kept.Auto)
	w.ends()
}

// eventTime waits for an event whose message begins so.
func (d *daemon) eventTime(begins string) (at time.Time) {
	d.t.Helper()
	d.eventually("an event: "+begins, func() bool {
		var list struct{ Events []api.Event }
		if json.Unmarshal([]byte(d.must("--json", "events")), &list) != nil {
			return false
		}
		for _, e := range list.Events {
			if strings.HasPrefix(e.Message, begins) {
				at = e.Time
			}
		}
		return !at.IsZero()
	})
	return at
}

// watching is a polisctl that runs until it is stopped.
type watching struct {
	t   testing.TB
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (d *daemon) background(args ...string) *watching {
	d.t.Helper()
	w := &watching{t: d.t, cmd: exec.Command(filepath.Join(d.bin, "polisctl"), args...)}
	w.cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
	w.cmd.Stdout, w.cmd.Stderr = w, w
	require.NoError(d.t, w.cmd.Start())
	d.t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			_ = w.cmd.Process.Kill()
			_ = w.cmd.Wait()
		}
	})
	return w
}

func (w *watching) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *watching) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

func (w *watching) sees(want string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return strings.Contains(w.text(), want) }, patience, 20*time.Millisecond, "waiting for %q", want)
}

// ends interrupts it, and requires that it ran until then.
func (w *watching) ends() {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Process.Signal(syscall.SIGINT))
	_ = w.cmd.Wait()
	require.Equal(w.t, 130, w.cmd.ProcessState.ExitCode(), w.text())
}
