package e2e

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAnAgentHasSoManyConnections: the limit is enforced and shown everywhere. Another agent's
// connections do not count, and a flood does not fill the host's table.
func TestAnAgentHasSoManyConnections(t *testing.T) {
	world := newInternet(t)
	d := world.startBehind("", "")
	d.up()
	d.add("alice", "--connections", "50")
	d.add("bob")
	a, _ := d.agent("alice")
	require.Equal(t, 50, a.ConnectionsLimit)
	b, _ := d.agent("bob")
	require.Equal(t, 4096, b.ConnectionsLimit)

	// opens returns how many of n connections succeed, and the error of the others.
	opens := func(agent string, n int) string {
		r := d.exec(agent, "/usr/bin/python3", "-c", fmt.Sprintf(`
import socket, errno
have, got = [], set()
for i in range(%d):
    s = socket.socket()
    s.settimeout(10)
    try:
        s.connect(("203.0.113.1", 80))
        have.append(s)
    except OSError as e:
        got.add(errno.errorcode.get(e.errno, str(e)))
print(len(have), *got)`, n))
		require.Zero(t, r.code, r)
		return strings.TrimSpace(r.stdout)
	}
	require.Equal(t, "50 ECONNREFUSED", opens("alice", 60))
	require.Equal(t, "60", opens("bob", 60))

	w := d.refusalOf("alice", "203.0.113.1:80")
	require.Equal(t, api.CodeQuota, w.Code)
	require.Equal(t, "tcp connection", w.Op)
	require.Contains(t, w.Hint, "polisctl agents set alice --connections N")
	require.True(t, strings.HasPrefix(w.Program, "python3"), w.Program)
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventConnections)) > 0 })
	e := d.eventsOf(api.EventConnections)[0]
	require.Equal(t, api.CodeQuota, e.Code)
	require.Equal(t, float64(50), e.Data["limit_connections"])
	require.Contains(t, d.must("agents", "list"), "!connections")

	// A restarted daemon keeps the limit, and a change applies at once.
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.eventually("the last ones are forgotten", func() bool { return opens("alice", 60) == "50 ECONNREFUSED" })
	d.must("agents", "set", "alice", "--connections", "55")
	d.eventually("the last ones are forgotten, and five more are allowed", func() bool { return opens("alice", 60) == "55 ECONNREFUSED" })

	tracked := func() int {
		out, err := exec.Command("nsenter", "--net="+world.host, "cat", "/proc/sys/net/netfilter/nf_conntrack_count").Output()
		require.NoError(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(out)))
		require.NoError(t, err)
		return n
	}
	const flood = `
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(5000):
    try: s.sendto(b"x", ("203.0.113.9", 1024 + i))
    except OSError: pass`
	d.must("agents", "set", "alice", "--connections", "200")
	before := tracked()
	d.must("agents", "exec", "alice", "--", "/usr/bin/python3", "-c", flood)
	require.Less(t, tracked(), before+300)
	d.must("agents", "set", "alice", "--connections", "none")
	d.must("agents", "exec", "alice", "--", "/usr/bin/python3", "-c", flood)
	require.Greater(t, tracked(), before+3000, "without a limit")
}
