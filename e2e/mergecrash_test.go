package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestPolisdDiesWhileItMerges: the work is in the target once, the state records it, and the user's
// checkout has it.
func TestPolisdDiesWhileItMerges(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	project := d.up()
	d.add("alice")
	n := 0
	work := func() {
		n++
		d.sh("alice", "echo x >> merged.txt; git add -A; git commit -qm work")
	}
	merge := func() result { return d.ctl("merge", "alice") }
	work()
	steps := d.steps(merge)
	require.Subset(t, steps, []string{"target:moved", "project:fetched", "state:written"})
	for _, step := range steps {
		work()
		d.dieAt(step, merge)
		require.Empty(t, d.report().Errors, step)
		// A second request merges it, or reports that it has been merged.
		d.eventually("the merge after "+step, func() bool {
			r := d.ctl("--json", "merge", "alice")
			return r.code == 0 || strings.Contains(r.stderr, string(api.CodeNothingToMerge))
		})
		d.eventually("the state knows, after "+step, func() bool {
			a, _ := d.agent("alice")
			return a.MergeStatus == api.MergeMerged && a.MergeCommitSHA == strings.TrimSpace(git(t, d.path("ws", ".polis", "bare-repo.git"), "rev-parse", "main"))
		})
		d.eventually("the user's checkout has it, after "+step, func() bool {
			return readFile(filepath.Join(project, "merged.txt")) == strings.Repeat("x\n", n)
		})
		require.Empty(t, git(t, project, "status", "--short"), step)
		require.Equal(t, n, strings.Count(git(t, project, "log", "--first-parent", "--merges", "--format=%H", "main"), "\n"), "each merged once, after %s", step)
	}

	// And while it reverts the last one.
	revert := func() result { return d.ctl("revert", "alice") }
	for _, step := range []string{"target:moved", "project:fetched", "state:written"} {
		d.dieAt(step, revert)
		require.Empty(t, d.report().Errors, step)
		d.eventually("the revert after "+step, func() bool { return revert().code == 0 })
		a, _ := d.agent("alice")
		require.Equal(t, api.MergeReverted, a.MergeStatus, step)
		require.Equal(t, strings.Repeat("x\n", n-1), git(t, project, "show", "main:merged.txt"), step)
		require.Equal(t, strings.Repeat("x\n", n-1), readFile(filepath.Join(project, "merged.txt")), step)
		require.Empty(t, git(t, project, "status", "--short"), step)
		d.sh("alice", "git merge -q main; echo x >> merged.txt; git commit -qam again")
		d.must("merge", "alice")
	}
}
