package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// crewExit is the exit code of every busy agent. It must be reported.
const crewExit = 7

// busyReport is the report that e2e/busy writes at its end.
type busyReport struct {
	Calls, Failed, New, Lines, Printed, Commits int
	Failures                                    []struct {
		Op, Path, Err string
		Time          time.Time
	}
	Slow []struct {
		Op         string
		Start, End time.Time
	}
}

// crew is a number of agents at work. Each has a port with a client.
type crew struct {
	d       *daemon
	names   []string
	over    chan struct{}
	talking sync.WaitGroup

	mu    sync.Mutex
	lost  []string // what went wrong with connections
	talks int
}

// tools builds the program of package e2e/busy and returns the configuration that makes it
// /opt/polis-e2e/busy in every sandbox.
func tools(t testing.TB) (config string) {
	t.Helper()
	// Searchable, because agents are not root.
	dir, err := os.MkdirTemp("/tmp", "polis-e2e-tools-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "busy"), "./busy")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return fmt.Sprintf("{ source = %q, dest = \"/opt/polis-e2e\", read_only = true }", dir)
}

// hire adds n agents and starts their work.
func (d *daemon) hire(n int) *crew {
	d.t.Helper()
	c := &crew{d: d, over: make(chan struct{})}
	for i := range n {
		name := fmt.Sprintf("busy%d", i)
		d.add(name, "--port", "3000", "--", "/opt/polis-e2e/busy", "-dir", "work-"+name, "-listen", "127.0.0.1:3000", "-exit", strconv.Itoa(crewExit))
		d.startProgram(name)
		c.names = append(c.names, name)
	}
	for _, name := range c.names {
		port := d.ports(name)[3000].External
		var conn net.Conn
		d.eventually(name+" to listen", func() (ok bool) {
			var err error
			if conn, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
				return false
			}
			// The listener on the host is the shim's. An answer shows that the agent listens.
			if _, err = echo(conn, bufio.NewReader(conn), "hello\n"); err != nil {
				conn.Close()
			}
			return err == nil
		})
		c.talking.Go(func() { c.talk(name, conn) })
	}
	return c
}

// startProgram starts an agent's program. An older polisctl, which some tests use, does so without --program.
func (d *daemon) startProgram(name string) {
	d.t.Helper()
	c := client.New(d.path("run", "polisd.sock"))
	defer c.Close()
	_, err := c.Start(d.t.Context(), name)
	require.NoError(d.t, err)
}

func echo(conn net.Conn, r *bufio.Reader, line string) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(line)); err != nil {
		return "", err
	}
	return r.ReadString('\n')
}

// talk uses one connection until the crew's work has ended.
func (c *crew) talk(name string, conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for i := 0; ; i++ {
		select {
		case <-c.over:
			return
		case <-time.After(20 * time.Millisecond):
		}
		want := fmt.Sprintf("line %d\n", i)
		got, err := echo(conn, r, want)
		c.mu.Lock()
		c.talks++
		if err != nil || got != want {
			c.lost = append(c.lost, fmt.Sprintf("connection to %s: got %q, error %v", name, got, err))
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// home is where an agent's $HOME is on the host.
func (d *daemon) home(agent string, elem ...string) string {
	return filepath.Join(append([]string{d.path("ws", ".polis", "homes", agent)}, elem...)...)
}

// dismiss ends the work and returns the agents' reports. It requires that no call failed.
func (c *crew) dismiss() map[string]busyReport {
	d := c.d
	d.t.Helper()
	close(c.over)
	c.talking.Wait()
	for _, name := range c.names {
		require.NoError(d.t, os.WriteFile(d.home(name, "stop"), nil, 0o644))
	}
	reports := map[string]busyReport{}
	for _, name := range c.names {
		d.eventually(name+" to report", func() bool { _, err := os.Stat(d.home(name, "report.json")); return err == nil })
		var r busyReport
		require.NoError(d.t, json.Unmarshal([]byte(readFile(d.home(name, "report.json"))), &r))
		reports[name] = r
		require.Zero(d.t, r.Failed, "%s: %d of %d calls failed: %+v", name, r.Failed, r.Calls, r.Failures)
		require.Positive(d.t, r.New, name)
		d.eventually("the exit code of "+name, func() bool {
			a, _ := d.agent(name)
			return a.Status == api.StatusIdle && strings.Contains(a.StatusReason, fmt.Sprintf("exit code %d", crewExit))
		})
		require.Equal(d.t, r.Printed, c.printed(name), "lines of output in the log of %s", name)
	}
	require.Empty(d.t, c.lost)
	require.Positive(d.t, c.talks)
	return reports
}

// printed counts the numbered lines of an agent's output log, and requires
// that they are in order without a gap.
func (c *crew) printed(name string) int {
	dir := c.d.path("ws", ".polis", "logs", name)
	text := readFile(filepath.Join(dir, "output.log.1")) + readFile(filepath.Join(dir, "output.log"))
	n := 0
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "out "); ok {
			require.Equal(c.d.t, strconv.Itoa(n), rest, "output of %s", name)
			n++
		}
	}
	return n
}

// dice is a seeded random source. A failing test prints the seed.
func dice(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("POLIS_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("POLIS_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// count is a number that the environment may increase for a longer run.
func count(t testing.TB, variable string, normal int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return normal
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, variable)
	return n
}
