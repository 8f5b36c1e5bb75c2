package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// cpuTime is the processor time that a process and all its threads have used.
func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	// The clock of another process: CPUCLOCK_SCHED of the kernel's include/linux/posix-timers_types.h.
	var ts unix.Timespec
	require.NoError(t, unix.ClockGettime(int32(^pid<<3|2), &ts))
	return time.Duration(ts.Nano())
}

// shimPIDs are the processes of the shims of this test.
func (d *daemon) shimPIDs() []int {
	d.t.Helper()
	var pids []int
	for _, f := range glob(d.path("run", "agents", "*", "shim.pid")) {
		fields := strings.Fields(readFile(f))
		require.NotEmpty(d.t, fields, f)
		pid, err := strconv.Atoi(fields[0])
		require.NoError(d.t, err)
		pids = append(pids, pid)
	}
	return pids
}

// idleCost is the processor time that polisd and the shims use while nothing happens, as a share
// of one processor.
func (d *daemon) idleCost(span time.Duration) (polisd, shims float64) {
	d.t.Helper()
	pids := d.shimPIDs()
	sum := func() (s time.Duration) {
		for _, pid := range pids {
			s += cpuTime(d.t, pid)
		}
		return s
	}
	began, d0, s0 := time.Now(), cpuTime(d.t, d.cmd.Process.Pid), sum()
	time.Sleep(span)
	d1, s1, took := cpuTime(d.t, d.cmd.Process.Pid), sum(), time.Since(began)
	return (d1 - d0).Seconds() / took.Seconds(), (s1 - s0).Seconds() / took.Seconds()
}

// BenchmarkIdleAgents prints the processor time of agents that do nothing.
// POLIS_AGENTS is their number (100), POLIS_SPAN how long it is measured (30s).
func BenchmarkIdleAgents(b *testing.B) {
	n := count(b, "POLIS_AGENTS", 100)
	span := 30 * time.Second
	if s := os.Getenv("POLIS_SPAN"); s != "" {
		var err error
		span, err = time.ParseDuration(s)
		require.NoError(b, err)
	}
	d := startDaemon(b, options{config: fmt.Sprintf("max_agents = %d\n", n+1)})
	d.up()
	for i := range n {
		d.add(fmt.Sprintf("idle%d", i), "--force")
	}
	time.Sleep(15 * time.Second)
	polisd, shims := d.idleCost(span)
	fmt.Printf("\n%d idle agents use %.2f %% of a processor: polisd %.2f %%, shims %.2f %% (%.0f us of each per second)\n", n, 100*(polisd+shims), 100*polisd, 100*shims, 1e6*shims/float64(n))
	b.ReportMetric(0, "ns/op")
}
