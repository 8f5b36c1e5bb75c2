package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// byName asks the proxy for a Host.
func byName(port int, host string) (status int, body string, err error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	if err != nil {
		return 0, "", err
	}
	r.Host = host
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestWebServersHaveNames(t *testing.T) {
	const port = 13987
	d := startDaemon(t, options{config: fmt.Sprintf("[network]\nports = \"4001-4099\"\npool = \"10.237.0.0/16\"\nproxy = \"127.0.0.1:%d\"\n", port)})
	d.up()
	d.add("alice", "--port", "3000")
	d.add("bob")
	is := func(host, want string) {
		t.Helper()
		d.eventually(host+" is "+want, func() bool {
			status, body, err := byName(port, host)
			return err == nil && status == 200 && body == want
		})
	}
	// A database first, a web server on ::1, another on 127.0.0.1.
	d.sh("alice", `setsid python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 2000)); s.listen()
while True:
    c, _ = s.accept(); c.sendall(b"-ERR\r\n"); c.close()' >/dev/null 2>&1 </dev/null &`)
	d.mapped("alice", "tcp", 2000)
	d.serve("alice", "::1", 3000)
	d.serve("alice", "127.0.0.1", 8080)
	d.serve("bob", "0.0.0.0", 8080)
	is("alice.polis.localhost", "alice ::1")
	is(fmt.Sprintf("8080.alice.polis.localhost:%d", port), "alice 127.0.0.1")
	is("bob.polis.localhost", "bob 0.0.0.0")
	require.Equal(t, fmt.Sprintf("http://3000.alice.polis.localhost:%d/", port), d.ports("alice")[3000].URL)
	require.Contains(t, d.must("ports", "list"), "http://3000.alice.polis.localhost")

	status, body, err := byName(port, "carol.polis.localhost")
	require.NoError(t, err)
	require.Equal(t, 404, status)
	for _, want := range []string{"alice", "bob", "8080.bob.polis.localhost"} {
		require.Contains(t, body, want)
	}
	status, body, err = byName(port, "evil.example")
	require.NoError(t, err)
	require.Equal(t, 421, status)
	require.NotContains(t, body, "alice")
	// A port without a listener in bob is not the host's, nor alice's.
	status, _, err = byName(port, fmt.Sprintf("%d.bob.polis.localhost", d.ports("alice")[3000].External))
	require.NoError(t, err)
	require.Equal(t, 502, status)
	// Agents do not reach it.
	gateway := strings.TrimSpace(d.sh("bob", "ip -4 route show default 2>/dev/null | awk '{print $3}'"))
	for _, host := range []string{"127.0.0.1", gateway} {
		require.NotZero(t, d.exec("bob", "/usr/bin/python3", "-c", fmt.Sprintf("import socket; socket.create_connection((%q,%d),1.5)", host, port)).code)
	}

	// After a restart of polisd, and of an agent, the names are there again.
	require.Error(t, d.signal(9))
	d.start()
	is("alice.polis.localhost", "alice ::1")
	d.must("agents", "stop", "bob")
	status, _, err = byName(port, "bob.polis.localhost")
	require.NoError(t, err)
	require.Equal(t, api.CodeBadState.Status(), status)
	d.must("agents", "start", "bob")
	d.serve("bob", "127.0.0.1", 8080)
	is("bob.polis.localhost", "bob 127.0.0.1")

	// A flood that one agent does not answer does not block another agent.
	d.sh("bob", `setsid python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 9000)); s.listen(1000); time.sleep(600)' >/dev/null 2>&1 </dev/null &`)
	d.mapped("bob", "tcp", 9000)
	const flood, share = 300, 256
	var refused atomic.Int32
	for range flood {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: 9000.bob.polis.localhost\r\n\r\n") // it is not answered
		require.NoError(t, err)
		go func() { // until c is closed
			if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && strings.Contains(line, " 503 ") {
				refused.Add(1)
			}
		}()
	}
	// One that asked before would have a place itself, and the last one each time.
	d.eventually("bob's share to be used up", func() bool { return refused.Load() == flood-share })
	status, _, err = byName(port, "9000.bob.polis.localhost")
	require.NoError(t, err)
	require.Equal(t, 503, status)
	is("alice.polis.localhost", "alice ::1")
}
