package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// metric is the value of a metric of an agent in a text.
func metric(t *testing.T, text, name, agent string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok && strings.Contains(rest, `agent="`+agent+`"`) {
			words := strings.Fields(line)
			v, err := strconv.ParseFloat(words[len(words)-1], 64)
			require.NoError(t, err, line)
			return v
		}
	}
	t.Fatalf("no %s of %s in:\n%s", name, agent, text)
	return 0
}

// TestSeed002_Q1_MonotonicMetrics: what was seen of an agent's counters never becomes less, regardless of who is
// killed or restarted. Feature: multi-agent-workspaces, Q1: Monotonic Metrics.
func TestSeed002_Q1_MonotonicMetrics(t *testing.T) {
	port := 20000 + os.Getpid()%10000
	d := startDaemon(t, options{config: fmt.Sprintf("[metrics]\nlisten = \"127.0.0.1:%d\"\n[locks]\ngrace = \"1s\"\n[roles.docs]\nread = [\"src/**\"]\nwrite = [\"docs/**\"]\n", port)})
	d.up()
	d.add("alice", "--role", "docs")
	counters := func() api.Counters {
		a, ok := d.agent("alice")
		require.True(t, ok)
		require.NotNil(t, a.Counters)
		return *a.Counters
	}
	var last api.Counters
	notLess := func(when string) {
		t.Helper()
		now := counters()
		require.GreaterOrEqual(t, now.ReadCount, last.ReadCount, when)
		require.GreaterOrEqual(t, now.WriteCount, last.WriteCount, when)
		require.GreaterOrEqual(t, now.ReadDenied, last.ReadDenied, when)
		require.GreaterOrEqual(t, now.WriteDenied, last.WriteDenied, when)
		last = now
	}
	work := func() {
		t.Helper()
		before := counters()
		d.sh("alice", `cat src/*.txt >/dev/null; echo x >> docs/guide.md; ! cat main.txt 2>/dev/null; ! sh -c 'echo x >> main.txt' 2>/dev/null`)
		now := counters()
		require.Greater(t, now.ReadDenied, before.ReadDenied)
		require.Greater(t, now.WriteDenied, before.WriteDenied)
		require.GreaterOrEqual(t, now.ReadCount-before.ReadCount, int64(2), "failed reads count")
		require.GreaterOrEqual(t, now.WriteCount-before.WriteCount, int64(2), "failed writes count")
		notLess("after work")
	}
	work()

	// The same numbers at the port, with the histograms of the same operations.
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	text := string(body)
	require.GreaterOrEqual(t, metric(t, text, "polis_agent_reads_total", "alice"), float64(last.ReadCount))
	require.GreaterOrEqual(t, metric(t, text, "polis_agent_read_duration_seconds_count", "alice"), float64(last.ReadCount))
	require.GreaterOrEqual(t, metric(t, text, "polis_agent_writes_denied_total", "alice"), float64(last.WriteDenied))
	require.Contains(t, text, "polis_patrol_cycle_seconds_count")
	require.Contains(t, d.must("metrics", "--prometheus", "alice"), `polis_agent_writes_total{agent="alice"`)
	require.NotZero(t, d.exec("alice", "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", port)).code, "an agent reached the port of the metrics")

	d.signal(syscall.SIGKILL)
	d.start()
	notLess("after a crash of polisd")
	work()
	d.must("agents", "stop", "alice")
	notLess("stopped")
	require.Equal(t, last.ReadCount, counters().ReadCount)
	d.must("agents", "start", "alice")
	notLess("started again")
	work()
	require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGKILL))
	d.eventually("the agent is in Error", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusError })
	notLess("after a crash of the shim")
	d.must("agents", "start", "alice")
	notLess("after a crash of the shim, and a start")
	work()

	// A damaged file costs the counters and nothing else.
	d.must("agents", "stop", "alice")
	files := glob(filepath.Join(d.path(), "*", ".polis", "logs", "alice", "counters"))
	require.Len(t, files, 1)
	fi, err := os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), fi.Mode())
	require.Zero(t, owns(fi))
	require.NoError(t, os.WriteFile(files[0], []byte("{}"), 0o600))
	d.must("agents", "start", "alice")
	last = api.Counters{}
	work()
}
