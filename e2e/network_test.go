package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// serve starts a small web server in an agent, in the background.
func (d *daemon) serve(agent, bind string, port int) {
	d.t.Helper()
	family := "AF_INET"
	if strings.Contains(bind, ":") {
		family = "AF_INET6"
	}
	d.sh(agent, fmt.Sprintf(`cat > $HOME/serve%d.py <<'P'
import http.server, socket
class S(http.server.HTTPServer):
    address_family = socket.%s
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        b = b"%s %s"
        self.send_response(200); self.send_header("Content-Length", str(len(b))); self.end_headers(); self.wfile.write(b)
    def log_message(self, *a): pass
S(("%s", %d), H).serve_forever()
P
setsid /usr/bin/python3 $HOME/serve%d.py >/dev/null 2>&1 </dev/null &`, port, family, agent, bind, bind, port, port))
}

func fetch(url string) (string, error) {
	c := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

func (d *daemon) fetchEventually(port int, want string) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("%q on port %d", want, port), func() bool {
		got, err := fetch(fmt.Sprintf("http://127.0.0.1:%d/", port))
		return err == nil && got == want
	})
}

func TestEveryAgentServesOnPort3000(t *testing.T) {
	d := startDaemon(t, options{config: "[network]\nports = \"3101-3199\"\npool = \"10.239.0.0/16\"\n"})
	d.up()
	binds := map[string]string{"four": "127.0.0.1", "six": "::1", "any": "0.0.0.0", "both": "::"}
	seen := map[int]bool{}
	for name, bind := range binds {
		a := d.add(name, "--port", "3000")
		require.Len(t, a.PortMappings, 1)
		m := a.PortMappings[0]
		require.Equal(t, 3000, m.Internal)
		require.True(t, m.External >= 3101 && m.External <= 3199 && !seen[m.External], "%d", m.External)
		require.Equal(t, "127.0.0.1", m.Bind)
		seen[m.External] = true
		d.serve(name, bind, 3000)
	}
	for name, bind := range binds {
		d.fetchEventually(d.ports(name)[3000].External, name+" "+bind)
	}
	// Every agent's own localhost is its own.
	require.Equal(t, "four 127.0.0.1", d.sh("four", "curl -sS --max-time 5 http://127.0.0.1:3000/"))

	// A port without a map is noticed and mapped automatically.
	d.serve("four", "127.0.0.1", 8080)
	d.eventually("8080 to be mapped", func() bool { return d.ports("four")[8080].External != 0 })
	require.True(t, d.ports("four")[8080].Auto)
	d.fetchEventually(d.ports("four")[8080].External, "four 127.0.0.1")

	var m api.PortMapping
	decode(t, d.must("--json", "ports", "add", "six", "4000"), &m)
	require.NotZero(t, m.External)
	d.must("ports", "remove", "six", "4000")
	require.NotContains(t, d.ports("six"), 4000)
	d.refused(api.CodePortNotFound, "ports", "remove", "six", "4000")

	external := d.ports("four")[3000].External
	d.must("agents", "remove", "four", "--force")
	_, err := fetch(fmt.Sprintf("http://127.0.0.1:%d/", external))
	require.Error(t, err, "a removed agent's port is closed")
}

func TestAgentsDoNotReachEachOtherNorTheHost(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	defer l.Close()
	hits := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits <- struct{}{}
			c.Close()
		}
	}()
	hostPort := l.Addr().(*net.TCPAddr).Port

	d := startDaemon(t, options{})
	d.up()
	a, b := d.add("alice"), d.add("bob")
	d.serve("alice", "0.0.0.0", 3000)
	d.eventually("alice serves", func() bool { return d.exec("alice", "curl", "-sS", "http://127.0.0.1:3000/").code == 0 })
	require.NotEqual(t, a.Address, b.Address)
	try := func(host string, port int) {
		t.Helper()
		r := d.exec("bob", "/usr/bin/python3", "-c", fmt.Sprintf("import socket; s=socket.create_connection((%q,%d),1.5); s.send(b'x'); print('reached')", host, port))
		require.NotZero(t, r.code, "bob reached %s:%d", host, port)
	}
	address := strings.Split(a.Address, "/")[0]
	if address != "" {
		try(address, 3000)
	}
	for _, host := range hostAddresses(t) {
		try(host, hostPort)
	}
	gateway := strings.TrimSpace(d.sh("bob", "ip -4 route show default 2>/dev/null | awk '{print $3}'"))
	if gateway != "" {
		try(gateway, hostPort)
		try(gateway, d.ports("alice")[3000].External)
	}
	select {
	case <-hits:
		t.Fatal("the host's service was reached")
	default:
	}
	// Forged addresses and raw packets need capabilities that the sandbox does not have.
	require.NotZero(t, d.exec("bob", "ip", "addr", "add", "10.9.9.9/24", "dev", "lo").code)
	require.NotZero(t, d.exec("bob", "/usr/bin/python3", "-c", "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)").code)
}

func hostAddresses(t *testing.T) []string {
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	var out []string
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			out = append(out, n.IP.String())
		}
	}
	return out
}

func TestATakenPortIsSkipped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:3301")
	if err != nil {
		t.Skip("port 3301 is in use here")
	}
	defer l.Close()
	d := startDaemon(t, options{config: "[network]\nports = \"3301-3302\"\nauto_map = false\npool = \"10.238.0.0/16\"\n"})
	d.up()
	a := d.add("alice", "--port", "3000")
	require.Equal(t, 3302, a.PortMappings[0].External)
	d.refused(api.CodeNoPorts, "ports", "add", "alice", "4000")
	// A port requested by number is treated in the same way: the next free port is used.
	d.refused(api.CodeNoPorts, "ports", "add", "alice", "4000", "3301")
}
