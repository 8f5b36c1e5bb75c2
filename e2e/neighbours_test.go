package e2e

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// offenders are what one agent does to all others at once: it forks, allocates memory, fills and
// empties a disk, and opens sockets, all without end.
var offenders = []struct{ name, script string }{
	{"memory hog", `while :; do python3 -c 'x = bytearray(2 << 30)'; sleep 0.1; done`},
	{"disk filler", `while :; do head -c 30000000 /dev/zero > filler-$$; sync filler-$$; rm filler-$$; done`},
	{"socket flood", floodSockets},
	{"fork bomb", `sleep 1; while :; do sh -c 'f() { f | f & }; f' 2>/dev/null; sleep 0.1; done`}, // last: nothing starts beside it
}

const floodSockets = `exec python3 -c '
import socket
l = socket.socket(); l.bind(("127.0.0.1", 4000)); l.listen(10)
keep = []
while True:
    try:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            s = socket.socket(type=kind); s.setblocking(False); keep.append(s)
            try: s.connect(("10.255.255.1", 9)); s.send(b"x" * 1000)
            except OSError: pass
            s = socket.socket(); s.setblocking(False); keep.append(s)
            try: s.connect(("127.0.0.1", 4000))
            except OSError: pass
    except OSError: keep = []
'`

// offend lets an agent run all of them, each in the background.
func (d *daemon) offend(agent string) {
	d.t.Helper()
	for i, o := range offenders {
		exec := func() result {
			// Each has a file of its own: a shell reads its script while it runs.
			return d.ctlInput(o.script, "agents", "exec", agent, "--", "sh", "-c", fmt.Sprintf("cat > $HOME/offence%[1]d; setsid sh $HOME/offence%[1]d >/dev/null 2>&1 </dev/null &", i))
		}
		r := exec()
		// The one before can have used up the agent's memory: then what starts next is killed.
		for again := 0; again < 50 && strings.Contains(r.stderr, "possibly OOM-killed"); again++ {
			r = exec()
		}
		require.Zero(d.t, r.code, "%s: %s", o.name, r)
	}
}

// statuses returns the durations of n runs of git status in an agent, sorted.
func (d *daemon) statuses(agent string, n int) []time.Duration {
	d.t.Helper()
	out := d.sh(agent, fmt.Sprintf(`exec python3 -c '
import subprocess, time
for _ in range(%d):
    t = time.monotonic(); subprocess.run(["git", "status", "--porcelain"], check=True); print(int((time.monotonic() - t) * 1e6), flush=True)
'`, n))
	var took []time.Duration
	for line := range strings.Lines(out) {
		var us int64
		_, err := fmt.Sscan(line, &us)
		require.NoError(d.t, err, line)
		took = append(took, time.Duration(us)*time.Microsecond)
	}
	require.Len(d.t, took, n, "each succeeded")
	slices.Sort(took)
	return took
}

// TestANoisyNeighbourIsHeldToItsLimits while another agent continues to work.
func TestANoisyNeighbourIsHeldToItsLimits(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("quiet")
	d.add("noisy", "--memory", "128", "--pids", "64")
	d.offend("noisy")
	stop := make(chan struct{})
	worst := make(chan api.Use)
	go func() {
		var w api.Use
		for {
			select {
			case <-stop:
				worst <- w
				return
			case <-time.After(100 * time.Millisecond):
			}
			var top api.Top
			if r := d.ctl("top", "--json", "--every", "100ms"); r.code == 0 && json.Unmarshal([]byte(r.stdout), &top) == nil {
				for _, a := range top.Agents {
					if a.Name == "noisy" {
						w.MemoryBytes, w.Pids = max(w.MemoryBytes, a.MemoryBytes), max(w.Pids, a.Pids)
					}
				}
			}
		}
	}()
	took := d.statuses("quiet", 30)
	d.eventually("its limits are reported", func() bool {
		return len(d.eventsOf(api.EventOOM)) > 0 && len(d.eventsOf(api.EventPids)) > 0
	})
	close(stop)
	w := <-worst
	require.Positive(t, w.Pids)
	// The kernel adds a charge before it compares it with the limit, and subtracts it
	// again if it is refused: what is read in between is over by what each
	// processor tries to charge at that moment.
	tries := uint64(runtime.NumCPU())
	require.LessOrEqual(t, w.Pids, 64+tries)
	require.LessOrEqual(t, w.MemoryBytes, uint64(128<<20)+tries<<20)
	for _, e := range append(d.eventsOf(api.EventOOM), d.eventsOf(api.EventPids)...) {
		require.Equal(t, "noisy", e.Agent)
	}
	q, _ := d.agent("quiet")
	require.Equal(t, api.StatusIdle, q.Status)
	require.Equal(t, "ok\n", d.sh("quiet", "echo ok"))
	began := time.Now()
	d.must("agents", "remove", "noisy", "--force")
	t.Logf("git status beside it: median %s, worst %s; removed in %s", took[len(took)/2], took[len(took)-1], time.Since(began))
}

// BenchmarkNoisyNeighbour prints how much slower git status is beside an agent
// that forks, allocates, writes and connects as fast as it can; no figure fails it.
func BenchmarkNoisyNeighbour(b *testing.B) {
	d := startDaemon(b, options{})
	d.upGo()
	d.add("quiet", "--memory", "2048")
	d.add("noisy", "--memory", "128", "--pids", "64")
	n := count(b, "POLIS_ROUNDS", 100)
	d.statuses("quiet", 10)
	idle := d.statuses("quiet", n)
	d.offend("noisy")
	loud := d.statuses("quiet", n)
	at := func(d []time.Duration, percent int) time.Duration {
		return d[(len(d)-1)*percent/100].Round(100 * time.Microsecond)
	}
	fmt.Printf("\ngit status, %d times: idle p50 %s p99 %s; beside a noisy neighbour p50 %s p99 %s; p99 %.1f times\n", n, at(idle, 50), at(idle, 99), at(loud, 50), at(loud, 99),
		float64(at(loud, 99))/float64(at(idle, 99)))
	b.ReportMetric(0, "ns/op")
}

// crowd starts n processes in an agent that do not want to go.
func (d *daemon) crowd(agent string, n int) {
	d.t.Helper()
	d.sh(agent, fmt.Sprintf(`setsid sh -c 'trap "" TERM HUP INT; for i in $(seq %d); do setsid sleep 7777 & done; wait' >/dev/null 2>&1 </dev/null &
until [ $(pgrep -c -x sleep) -ge %d ]; do sleep 0.05; done`, n, n))
}

// Feature: multi-agent-workspaces, Property 28: Process Reaping on Removal
func TestRemovalEndsAThousandProcesses(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--memory", "2048", "--pids", "2000")
	d.crowd("alice", 1000)
	before := d.traces()
	require.GreaterOrEqual(t, len(before.Processes), 1000)
	began := time.Now()
	d.must("agents", "remove", "alice", "--force")
	t.Logf("removed in %s", time.Since(began))
	require.Empty(t, slices.DeleteFunc(d.traces().Processes, func(p string) bool { return !strings.Contains(p, "sleep") && !strings.Contains(p, "polis-shim") }))
}

// BenchmarkCrowds prints what the removal of an agent with a thousand processes
// takes, and the memory of a hundred idle ones, for people. POLIS_AGENTS is
// another number of those.
func BenchmarkCrowds(b *testing.B) {
	n := count(b, "POLIS_AGENTS", 100)
	d := startDaemon(b, options{config: fmt.Sprintf("max_agents = %d\n", n+1)})
	d.up()
	var removed, plain []time.Duration
	for range 3 {
		for _, crowd := range []int{1000, 0} {
			d.add("crowd", "--memory", "2048", "--pids", "2000")
			if crowd > 0 {
				d.crowd("crowd", crowd)
			}
			began := time.Now()
			d.must("agents", "remove", "crowd", "--force")
			if crowd > 0 {
				removed = append(removed, time.Since(began))
			} else {
				plain = append(plain, time.Since(began))
			}
		}
	}
	free := func() (kb int) {
		for line := range strings.Lines(readFile("/proc/meminfo")) {
			if strings.HasPrefix(line, "MemAvailable:") {
				_, _ = fmt.Sscan(strings.Fields(line)[1], &kb) //nolint:errcheck // 0
			}
		}
		return kb
	}
	was := free()
	for i := range n {
		d.add(fmt.Sprintf("idle%d", i), "--force")
	}
	time.Sleep(2 * time.Second)
	var shims, daemon int
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		cmd := readFile(f)
		if !strings.Contains(cmd, d.dir) {
			continue
		}
		kb := pss(strings.TrimSuffix(f, "/cmdline"))
		if strings.Contains(cmd, "polis-shim") {
			shims += kb
		} else {
			daemon += kb
		}
	}
	var top api.Top
	require.NoError(b, json.Unmarshal([]byte(d.must("top", "--json", "--every", "100ms")), &top))
	fmt.Printf("\nremoval of an agent with 1000 processes %s, with none %s\n", median(removed).Round(time.Millisecond), median(plain).Round(time.Millisecond))
	fmt.Printf("%d idle agents: shims %d MB, control groups of their sandboxes %d MB, polisd %d MB; the machine has %d MB less\n", n, shims>>10, top.Total.MemoryBytes>>20, daemon>>10, (was-free())>>10)
	b.ReportMetric(0, "ns/op")
}
