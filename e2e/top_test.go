package e2e

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTopShowsWhatAgentsUse(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("idle")
	d.must("agents", "add", "busy", "--base", "custom", "--cpu", "50", "--", "python3", "-c", `
import os
x = bytearray(80 << 20)
fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
if os.fork() == 0:
    while True: pass
while True: open("scratch.txt", "w").write("x" * 100000)
`)
	d.must("agents", "start", "--program", "busy")
	type sample struct {
		api.Top
		Rates map[string]map[string]float64
	}
	rows := func(s sample) map[string]api.TopAgent {
		out := map[string]api.TopAgent{}
		for _, r := range s.Agents {
			out[r.Name] = r
		}
		return out
	}
	d.eventually("the busy agent is busy", func() bool {
		var s sample
		require.NoError(t, json.Unmarshal([]byte(d.must("top", "--json")), &s))
		b, i := rows(s)["busy"], rows(s)["idle"]
		return b.MemoryBytes > 80<<20 && b.OpenFiles > 200 && b.Pids >= 3 && b.ThrottledMicros > 0 && b.Shim.CPUMicros > 0 && s.Rates["busy"]["cpu_percent"] > 10 &&
			i.MemoryBytes < 80<<20 && i.Pids == 1 && i.MemoryLimitBytes == 512<<20 && s.Total.Pids == b.Pids+i.Pids && s.Polisd.MemoryBytes > 1<<20
	})
	var n int
	for scan := bufio.NewScanner(strings.NewReader(d.must("top", "--json", "-n", "2", "--every", "1s"))); scan.Scan(); n++ {
		var s sample
		require.NoError(t, json.Unmarshal(scan.Bytes(), &s))
		require.Less(t, s.Rates["busy"]["cpu_percent"], 100.0, "half a processor is its limit")
	}
	require.Equal(t, 2, n)
	require.Contains(t, d.must("top"), "PRESSURE")
	d.must("agents", "stop", "busy")
	require.NotContains(t, d.must("top", "-q"), "busy")
}
