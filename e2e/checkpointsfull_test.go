package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAFullDiskOfCheckpoints: tasks run without a checkpoint, which is reported until one is made again.
func TestAFullDiskOfCheckpoints(t *testing.T) {
	disk, fill := smallDisk(t)
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"1h\"\n", restores: true})
	d.up()
	store := filepath.Join(disk, "snapshots")
	require.NoError(t, os.Mkdir(store, 0o700))
	dir := d.path("ws", ".polis", "snapshots")
	if _, err := os.Lstat(dir); err == nil {
		require.NoError(t, os.Remove(dir), "nothing is stored yet")
	}
	require.NoError(t, os.Symlink(store, dir))
	d.worker("alice")
	tasks := 0
	task := func(script string) {
		t.Helper()
		tasks++
		d.must("agents", "run", "alice", script)
		id := fmt.Sprint("alice.", tasks)
		d.eventually("the task has ended", func() bool { return d.taskRecord(id).State == api.TaskEnded })
		require.NotNil(t, d.taskRecord(id).ExitCode)
		require.Zero(t, *d.taskRecord(id).ExitCode)
	}
	task("echo one >made")
	tasksOf := func() (out []int) { // each ends with a merge, which has a checkpoint of its own
		for _, s := range d.timeline("alice") {
			if s.Why == api.SnapshotByTask {
				out = append(out, s.Task)
			}
		}
		return out
	}
	require.Equal(t, []int{1}, tasksOf())
	first := d.timeline("alice")[0]

	filler := fill()
	task("echo two >made")
	require.Equal(t, []int{1}, tasksOf())
	d.eventually("it is reported", func() bool { return len(d.happened(api.EventCheckpoints)) == 1 })
	require.Equal(t, api.CodeStateNotSaved, d.happened(api.EventCheckpoints)[0].Code)
	require.Contains(t, d.warnings(), "agent alice has no new checkpoints")
	d.refused(api.CodeStateNotSaved, "checkpoint", "alice")
	d.refused(api.CodeStateNotSaved, "rewind", "alice", "--to", first.ID)
	require.Equal(t, "two\n", d.sh("alice", "cat made"))
	require.Contains(t, d.must("snapshot", "verify", first.ID), "is intact")

	require.NoError(t, os.Remove(filler))
	task("echo three >made")
	require.NotContains(t, d.warnings(), "checkpoints")
	d.eventually("its end is reported", func() bool { return len(d.happened(api.EventCheckpoints)) == 2 })
	require.Empty(t, d.happened(api.EventCheckpoints)[1].Code)
	d.rewind("alice", "--to", "before task 3")
	require.Equal(t, "two\n", d.sh("alice", "cat made"))
	d.rewind("alice", "--to", first.ID)
	require.Equal(t, "no\n", d.sh("alice", "test -e made || echo no"))
}
