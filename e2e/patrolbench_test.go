package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// BenchmarkPatrol prints what a cycle of the patrol costs over agents whose programs all run and do
// nothing, how soon a dead shim is noticed and its leases are free, and how soon a breaker freezes.
// No figure fails it. POLIS_AGENTS is the number of agents (100), POLIS_SPAN for how long processor
// time is measured with the patrol every 10 s, every second, and without it, twice each (40s).
func BenchmarkPatrol(b *testing.B) {
	n, span := count(b, "POLIS_AGENTS", 100), 40*time.Second
	if s := os.Getenv("POLIS_SPAN"); s != "" {
		var err error
		span, err = time.ParseDuration(s)
		require.NoError(b, err)
	}
	d := startDaemon(b, options{config: fmt.Sprintf("max_agents = %d\n[breakers]\ndenials = 20\n[patrol.escalation]\njournal = \"off\"\n", n+2)})
	d.up()
	for i := range n {
		name := fmt.Sprintf("busy%d", i)
		d.must("agents", "add", name, "--base", "custom", "--write", "**", "--force", "--", "sh", "-c", "exec sleep 100000")
		d.must("agents", "start", "--program", name)
	}
	d.benchDeaths(b, 10)
	d.benchBreaker(b, 20)
	d.benchCycles(b, n-10, span)
	b.ReportMetric(0, "ns/op")
}

// benchCycles prints the wall time of cycles and the processor time of the patrol.
func (d *daemon) benchCycles(b *testing.B, n int, span time.Duration) {
	var forced, own []time.Duration
	for range 10 {
		forced = append(forced, time.Duration(d.patrol().Millis)*time.Millisecond)
	}
	last := func() api.PatrolReport {
		var rep api.PatrolReport
		require.NoError(b, json.Unmarshal([]byte(d.must("--json", "patrol")), &rep))
		return rep
	}
	time.Sleep(150 * time.Second) // what was added last has settled: Go collects once more after two minutes
	var seen time.Time
	all := func() (s time.Duration) {
		for _, pid := range append(d.shimPIDs(), d.cmd.Process.Pid) {
			s += cpuTime(b, pid)
		}
		return s
	}
	config := readFile(d.path("polisd.toml"))
	// used returns the processor time in each second with the patrol every interval.
	used := func(interval string) time.Duration {
		d.write("polisd.toml", strings.Replace(config, "[patrol.escalation]", "[patrol]\ninterval = \""+interval+"\"\n[patrol.escalation]", 1))
		require.NoError(b, d.cmd.Process.Signal(syscall.SIGHUP))
		time.Sleep(15 * time.Second)
		began, c0 := time.Now(), all()
		for time.Since(began) < span {
			time.Sleep(4 * time.Second)
			if rep := last(); rep.At.After(seen) {
				seen = rep.At
				own = append(own, time.Duration(rep.Millis)*time.Millisecond)
			}
		}
		return time.Duration(float64(all()-c0) / time.Since(began).Seconds())
	}
	// In turns, as other work on the machine comes and goes. A cycle in every second costs more than that changes.
	var with, without, often time.Duration
	const rounds = 2
	for range rounds {
		with, without, often = with+used("10s")/rounds, without+used("0s")/rounds, often+used("1s")/rounds
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() }
	fmt.Printf("\n%d agents that run: a cycle that queries every shim %v (%v at most); one of polisd's own %v (%v at most), %v of processor time\n", n, median(forced), slices.Max(forced), median(own), slices.Max(own), (often - without).Round(10*time.Microsecond))
	fmt.Printf("processor time of polisd and the shims: %.2f %% with the patrol every 10 s, %.2f %% every second, %.2f %% without it\n", percent(with), percent(often), percent(without))
}

// benchDeaths prints how soon killed shims are noticed, and their leases free.
func (d *daemon) benchDeaths(b *testing.B, times int) {
	var noticed, free []time.Duration
	c := d.http()
	get := func(path string, into any) {
		resp, err := c.Get("http://polis" + path)
		require.NoError(b, err)
		defer resp.Body.Close()
		require.NoError(b, json.NewDecoder(resp.Body).Decode(into))
	}
	for i := range times {
		name := fmt.Sprintf("busy%d", i)
		d.sh(name, fmt.Sprintf("echo > lease%d", i))
		holds := func() bool {
			var l struct{ Locks []api.Lock }
			get("/v1/locks", &l)
			return slices.ContainsFunc(l.Locks, func(l api.Lock) bool { return l.Holder == name })
		}
		require.True(b, holds())
		pid := d.shim(name)
		began := time.Now()
		require.NoError(b, syscall.Kill(pid, syscall.SIGKILL))
		for holds() {
			require.Less(b, time.Since(began), time.Minute)
		}
		free = append(free, time.Since(began))
		for a := (api.Agent{}); a.Status != api.StatusError; get("/v1/agents/"+name, &a) {
			require.Less(b, time.Since(began), time.Minute)
		}
		noticed = append(noticed, time.Since(began))
	}
	for i := range times {
		d.must("agents", "remove", "--force", fmt.Sprintf("busy%d", i))
	}
	fmt.Printf("\n%d shims killed: leases free after %v (%v at most), the agent is in Error after %v (%v at most)\n", times,
		median(free).Round(time.Millisecond), slices.Max(free).Round(time.Millisecond), median(noticed).Round(time.Millisecond), slices.Max(noticed).Round(time.Millisecond))
}

// benchBreaker prints the time from the refusal that passes a breaker's limit until the kernel has
// the order to freeze, and until all processes are frozen.
func (d *daemon) benchBreaker(b *testing.B, times int) {
	d.must("agents", "add", "wild", "--base", "custom", "--write", "ok/**", "--force", "--", "sh", "-c", "for i in 1 2 3 4; do while :; do echo > denied; done 2>/dev/null & done; wait")
	d.must("agents", "start", "--program", "wild")
	var decided, frozen []time.Duration
	for n := range times {
		d.eventually("it is frozen", func() bool { return len(d.eventsOf(api.EventFrozen)) > n })
		if n < times-1 {
			d.must("agents", "thaw", "wild")
		}
	}
	for _, e := range d.eventsOf(api.EventFrozen) {
		text, err := json.Marshal(e.Data["frozen"])
		require.NoError(b, err)
		var f api.Frozen
		require.NoError(b, json.Unmarshal(text, &f))
		decided = append(decided, time.Duration(f.Trip.DecidedMicros)*time.Microsecond)
		frozen = append(frozen, time.Duration(f.Trip.FrozenMicros)*time.Microsecond)
	}
	d.must("agents", "remove", "--force", "wild")
	fmt.Printf("%d freezes of four processes by a breaker: decided after %v (%v at most), frozen after %v (%v at most)\n", len(frozen), median(decided), slices.Max(decided), median(frozen), slices.Max(frozen))
}
