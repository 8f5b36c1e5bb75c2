package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestADiskLimitRefusesWhatWouldAdd until something is removed; a limit that is
// set on a living agent counts at once.
func TestADiskLimitRefusesWhatWouldAdd(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--disk", "32")
	d.add("bob")
	a, _ := d.agent("alice")
	require.Equal(t, 32, a.DiskLimitMB)
	d.sh("alice", "head -c 40000000 /dev/zero > big")
	d.eventually("it is measured", func() bool { return d.exec("alice", "sh", "-c", "echo x > small").code != 0 })
	r := d.exec("alice", "env", "LC_ALL=C", "sh", "-c", "echo x > small2")
	require.Contains(t, r.stderr, "quota exceeded")
	require.Contains(t, d.must("agents", "why", "alice"), string(api.CodeQuota))
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventDisk)) > 0 })
	e := d.eventsOf(api.EventDisk)[0]
	require.Equal(t, api.CodeQuota, e.Code)
	require.Greater(t, e.Data["used_bytes"], float64(40_000_000))
	require.Contains(t, d.must("agents", "list"), "!disk")
	d.sh("alice", "git status >/dev/null; cat main.txt >/dev/null; mv big bigger")
	d.sh("bob", "head -c 40000000 /dev/zero > bobs")

	d.must("agents", "set", "alice", "--disk", "100")
	d.sh("alice", "echo x > small")
	d.must("agents", "set", "alice", "--disk", "32")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > small3").code)
	d.sh("alice", "rm bigger")
	d.eventually("it is measured again", func() bool { return d.exec("alice", "sh", "-c", "echo x > small").code == 0 })

	d.sh("alice", "head -c 40000000 /dev/zero > $HOME/big")
	d.eventually("the home counts", func() bool { return d.exec("alice", "sh", "-c", "echo x > small").code != 0 })
	d.must("agents", "set", "alice", "--disk", "none")
	d.sh("alice", "echo x > small")
}
