package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestInstalledPackagesAreNotMerged: no other agent sees an agent's changes below node_modules, and
// a merge does not change the project's files there.
func TestInstalledPackagesAreNotMerged(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.smallRepo()
	index := filepath.Join(repo, "node_modules", "left", "i.js")
	d.seed(repo, map[string]string{"node_modules/left/i.js": "6\n"})
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice")
	d.add("bob")
	d.sh("alice", ident+"echo 7 > node_modules/left/i.js; mkdir node_modules/right; echo 1 > node_modules/right/i.js; "+commitOf("uses.txt", "right"))
	require.Equal(t, "6\n", d.sh("bob", "cat node_modules/left/i.js"))
	var r api.MergeResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "merge", "alice")), &r))
	require.Equal(t, "updated", r.Project, r.Note)
	require.FileExists(t, filepath.Join(repo, "uses.txt"))
	require.Equal(t, "6\n", readFile(index))
	require.NoDirExists(t, filepath.Join(repo, "node_modules", "right"))
	require.Equal(t, "7\n", d.sh("alice", "cat node_modules/left/i.js"), "and alice keeps hers")
	require.Equal(t, "6\n", d.sh("bob", "cat node_modules/left/i.js"))
	require.Empty(t, git(t, repo, "status", "--porcelain"))
}

// TestAConflictOfATaskIsReported: the automatic merge after a task conflicts, and stays pending
// with its paths until a person merges or discards it.
func TestAConflictOfATaskIsReported(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n"})
	d.up()
	for _, n := range []string{"first", "second"} {
		d.worker(n)
		d.sh(n, ident+commitOf("main.txt", n))
	}
	d.must("merge", "first")
	d.task("second", commitOf("more.txt", "more"))
	d.fate("second", api.MergePending)
	d.eventually("the queue shows why", func() bool {
		recent := d.queues().Recent
		return len(recent) > 0 && recent[0].Code == api.CodeMergeConflict
	})
	require.Equal(t, []string{"main.txt"}, d.queues().Recent[0].Paths)
	require.Contains(t, d.must("agents", "list"), "pending")
	d.must("discard", "second", "--yes")
	require.Empty(t, git(t, d.bare(), "branch", "--list", "agent/second"))
}
