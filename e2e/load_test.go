package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRestartsUnderLoad ends polisd repeatedly, at random moments and in both ways, while agents
// work. None of their system calls fails, no connection breaks, and no line of output or exit code
// is lost. The long version: POLIS_RESTARTS=20 POLIS_AGENTS=10.
func TestRestartsUnderLoad(t *testing.T) {
	rounds, agents := count(t, "POLIS_RESTARTS", 4), count(t, "POLIS_AGENTS", 3)
	rnd := dice(t)
	d := startDaemon(t, options{config: "[locks]\nhold = \"2s\"\n", mounts: tools(t)})
	d.up()
	c := d.hire(agents)
	time.Sleep(500 * time.Millisecond)
	type outage struct{ gone, started time.Time }
	var outages []outage
	for i := range rounds {
		time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
		sig := syscall.SIGKILL
		if i%2 == 1 {
			sig = syscall.SIGUSR1 // an upgrade without systemd
		}
		o := outage{gone: time.Now()}
		_ = d.signal(sig) //nolint:errcheck // killed, or ended by itself
		o.started = time.Now()
		d.start()
		outages = append(outages, o)
	}
	time.Sleep(time.Second)
	reports := c.dismiss()
	calls, fresh := 0, 0
	var longest time.Duration
	resumed := make([]time.Duration, len(outages))
	for _, r := range reports {
		calls += r.Calls
		fresh += r.New
		for _, s := range r.Slow {
			if !strings.HasPrefix(s.Op, "git") {
				longest = max(longest, s.End.Sub(s.Start))
			}
			for i, o := range outages {
				if s.Op == "new" && s.Start.Before(o.started) && s.End.After(o.gone) {
					resumed[i] = max(resumed[i], s.End.Sub(o.started))
				}
			}
		}
	}
	require.Positive(t, calls)
	t.Logf("%d restarts, %d agents: %d calls, 0 failed; %d new leases; the longest call took %s; new leases %s after each start of polisd",
		rounds, agents, calls, fresh, longest.Round(time.Millisecond), resumed)
}
