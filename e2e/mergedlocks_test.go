package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// The next agent begins with the merged state. It need not wait for the rest of the hold.
func TestAMergedAgentGivesItsLeasesBackAtOnce(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"fail\"\nhold = \"10m\"\n"})
	d.up()
	d.worker("alice")
	d.add("bob")
	d.task("alice", commitOf("main.txt", "alice"))
	first := d.fate("alice", api.MergeMerged)
	d.eventually("the merged file to be free", func() bool {
		_, held := d.locks()["main.txt"]
		return !held
	})
	d.sh("bob", "echo bob >> main.txt")

	// Work that is not in the target stays locked, also after a merge of the rest.
	d.task("alice", commitOf("src/a.txt", "alice")+"; echo more > src/b.txt")
	d.eventually("the second task to be merged", func() bool {
		a, ok := d.agent("alice")
		return ok && a.Task != nil && a.Task.ID != first.Task.ID && strings.HasPrefix(a.Task.Result, "merged")
	})
	d.heldBy("alice", "src/b.txt")
	require.NotZero(t, d.exec("bob", "sh", "-c", "echo bob > src/b.txt").code)
}
