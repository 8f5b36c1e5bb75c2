package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestTheFirstTaskInALargeTreeHasACheckpointBeforeIt: the tree is read when the agent's shim has started, also when it is
// started again; a removal does not wait for the rest of it.
func TestTheFirstTaskInALargeTreeHasACheckpointBeforeIt(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"1h\"\n", restores: true})
	d.generated(5000, func(i int) []byte { return fmt.Appendf(nil, "%d\n", i%100) })
	ahead := func(times int) {
		t.Helper()
		d.eventually("its files are read ahead", func() bool {
			return strings.Count(readFile(d.path("polisd.log")), "read ahead of the first checkpoint") >= times
		})
	}
	d.worker("alice")
	ahead(1)
	require.Empty(t, d.timeline("alice"), "what was read ahead is the state of no moment")
	task := func(n int) {
		t.Helper()
		d.must("agents", "run", "alice", fmt.Sprintf("echo %d >made; echo %d >>d7/700; rm d8/801", n, n))
		d.eventually("the task has ended", func() bool { return d.taskRecord(fmt.Sprint("alice.", n)).State == api.TaskEnded })
		r := d.rewind("alice", "--to", fmt.Sprint("before task ", n))
		require.ElementsMatch(t, []string{"d7/700", "d8/801", "made"}, r.Paths)
		require.Equal(t, "0\n", readFile(filepath.Join(d.path("ws", ".polis", "worktrees", "alice"), "d7", "700")))
	}
	task(1)
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	ahead(2)
	task(2)
	d.worker("bob")
	d.must("agents", "remove", "--force", "bob")
}
