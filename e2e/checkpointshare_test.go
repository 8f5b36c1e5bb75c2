package e2e

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAgentsThatFillTheStoreLeaveOthersTheirCheckpoints: the store is shared; and a task without a checkpoint before it has the reason.
func TestAgentsThatFillTheStoreLeaveOthersTheirCheckpoints(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"24h\"\nmax_mb = 6\nagent_mb = 5\n"})
	d.up()
	for _, name := range []string{"xena", "yves", "zoe"} {
		d.worker(name)
	}
	var full sync.WaitGroup
	for _, name := range []string{"xena", "yves"} {
		full.Go(func() {
			d.exec(name, "sh", "-c", "for i in 1 2 3 4; do head -c 1100000 /dev/urandom >"+name+"; polisctl checkpoint; sleep 2.2; done")
		})
	}
	full.Wait()
	made := len(d.timeline("xena")) + len(d.timeline("yves"))
	require.GreaterOrEqual(t, made, 2)

	ofTasks := func() (n int) {
		for _, s := range d.timeline("zoe") {
			if s.Why == api.SnapshotByTask {
				n++
			}
		}
		return n
	}
	d.sh("zoe", "head -c 1500000 /dev/urandom >work")
	d.must("agents", "run", "zoe", "true")
	require.Equal(t, api.EndExit, d.settled("zoe").EndedBy)
	require.Equal(t, 1, ofTasks(), "it has its share")
	require.Empty(t, d.happened(api.EventCheckpoints))
	require.Empty(t, d.taskRecord("zoe.1").NoCheckpoint)
	require.NotEmpty(t, d.timeline("xena"))
	require.NotEmpty(t, d.timeline("yves"))

	d.sh("zoe", "head -c 4500000 /dev/urandom >work")
	d.must("agents", "run", "zoe", "true")
	require.Equal(t, api.EndExit, d.settled("zoe").EndedBy, "the task runs all the same")
	require.Equal(t, 1, ofTasks())
	why := d.taskRecord("zoe.2").NoCheckpoint
	require.Contains(t, why, "the store has reached its bound")
	require.Contains(t, why, "snapshots.max_mb")
	require.Contains(t, d.must("tasks", "show", "zoe.2"), "checkpoint  none before it: ")
	require.Contains(t, d.must("events"), "agent zoe got a task, and there is no checkpoint before it: ")
	require.Contains(t, d.warnings(), "agent zoe has no new checkpoints")
}
