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

// wakes returns how often a process has gone to sleep. This does not depend on the speed of the
// machine.
func wakes(t testing.TB, pid int) (n int) {
	t.Helper()
	for _, f := range glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) {
		for line := range strings.Lines(readFile(f)) {
			if v, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				k, err := strconv.Atoi(strings.TrimSpace(v))
				require.NoError(t, err)
				n += k
			}
		}
	}
	return n
}

// TestIdleAgentsCostNextToNothing: a hundred of them use about one percent of a processor
// (BenchmarkIdleAgents). Here the threads of a shim may wake 2.5 times a second together, which
// are half a dozen with a ticker of two seconds, and a hundred shims would use less than two
// percent: other tests make caches cold. Once is enough: agents need some time to settle.
func TestIdleAgentsCostNextToNothing(t *testing.T) {
	const agents, span = 8, 8 * time.Second
	d := startDaemon(t, options{config: "[limits.memory_ask]\nstep_mb = 64\nmax_mb = 1024\n"}) // which the kernel watches for
	d.up()
	for i := range agents {
		d.add(fmt.Sprintf("idle%d", i), "--force")
	}
	pids := d.shimPIDs()
	require.Len(t, pids, agents)
	var woke, share float64
	for range 12 {
		before := 0
		for _, pid := range pids {
			before += wakes(t, pid)
		}
		polisd, shims := d.idleCost(span)
		after := 0
		for _, pid := range pids {
			after += wakes(t, pid)
		}
		woke = float64(after-before) / agents / span.Seconds()
		share = 100 * (polisd + shims*100/agents)
		t.Logf("a shim woke %.2f times a second; a hundred would use %.2f %% of a processor with a polisd of %.2f %%", woke, share, 100*polisd)
		if woke < 2.5 && share < 2 {
			break
		}
	}
	require.Less(t, woke, 2.5, "wake-ups of a shim per second")
	require.Less(t, share, 2.0, "percent of a processor")
	for _, pid := range pids {
		require.Positive(t, cpuTime(t, pid))
	}

	// They still work: a new listener is mapped at once.
	began := time.Now()
	d.sh("idle0", "setsid python3 -m http.server 3000 >/dev/null 2>&1 </dev/null &")
	d.eventually("the port is mapped", func() bool { return len(d.ports("idle0")) > 0 })
	t.Logf("mapped after %s", time.Since(began))
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
	// The last ones have settled: Go collects once more after two minutes, and then rests.
	time.Sleep(150 * time.Second)
	polisd, shims := d.idleCost(span)
	fmt.Printf("\n%d idle agents use %.2f %% of a processor: polisd %.2f %%, shims %.2f %% (%.0f us of each per second)\n", n, 100*(polisd+shims), 100*polisd, 100*shims, 1e6*shims/float64(n))
	d.askIdle(b)
	b.ReportMetric(0, "ns/op")
}

// askIdle prints how long the everyday questions take while the agents are up, and the processor time
// that a list costs polisd and the shims together.
func (d *daemon) askIdle(b *testing.B) {
	timed := func(n int, args ...string) []time.Duration {
		var took []time.Duration
		for range n {
			began := time.Now()
			d.must(args...)
			took = append(took, time.Since(began))
		}
		return took
	}
	pids := append(d.shimPIDs(), d.cmd.Process.Pid)
	sum := func() (s time.Duration) {
		for _, pid := range pids {
			s += cpuTime(b, pid)
		}
		return s
	}
	const lists = 20
	timed(2, "agents", "list")
	before := sum()
	list := timed(lists, "agents", "list")
	cost := (sum() - before) / lists
	fmt.Printf("agents list %v (%v of processor time in polisd and the shims); agents exec %v\n",
		median(list), cost.Round(100*time.Microsecond), median(timed(lists, "agents", "exec", "idle0", "--", "true")))
}
