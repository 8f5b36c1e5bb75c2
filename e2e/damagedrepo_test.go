package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestADamagedRepositoryHaltsWhatBuildsOnIt: a check at the start finds that the target branch is
// incomplete. Until it is complete, polisd adds, merges and maintains nothing. Running agents
// continue.
func TestADamagedRepositoryHaltsWhatBuildsOnIt(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "mkdir new && echo x > new/file && git add -A && git commit -qm alice")
	d.must("merge", "alice")
	d.sh("bob", "echo b > bob.txt && git add -A && git commit -qm bob")
	d.must("discard", "alice", "--yes")
	bare := d.path("ws", ".polis", "bare-repo.git")
	tree := strings.TrimSpace(git(t, bare, "rev-parse", "main:new"))
	object := filepath.Join(bare, "objects", tree[:2], tree[2:])
	whole, err := os.ReadFile(object)
	require.NoError(t, err)
	d.stop()
	require.NoError(t, os.Remove(object))

	d.start()
	require.Contains(t, d.must("status"), "REPO_CORRUPT")
	found := d.happened(api.EventDamaged)
	require.Len(t, found, 1)
	require.Equal(t, api.CodeRepoCorrupt, found[0].Code)
	require.Contains(t, d.refused(api.CodeRepoCorrupt, "agents", "add", "carol", "--base", "custom").Message, tree)
	d.refused(api.CodeRepoCorrupt, "merge", "bob")
	d.refused(api.CodeRepoCorrupt, "merge", "bob", "--dry-run")
	d.refused(api.CodeRepoCorrupt, "maintenance", "--now")
	require.NotZero(t, d.ctl("doctor").code)
	require.Contains(t, d.ctl("doctor").stdout, "repository of ws")
	d.sh("bob", "echo more >> bob.txt && git commit -qam more")
	require.Contains(t, d.must("agents", "diff", "bob", "--stat"), "bob.txt")

	require.NoError(t, os.WriteFile(object, whole, 0o444))
	d.ctl("doctor")
	require.NotContains(t, d.must("status"), "REPO_CORRUPT")
	require.Len(t, d.happened(api.EventDamaged), 2)
	d.must("merge", "bob")
	d.must("maintenance", "--now")
}
