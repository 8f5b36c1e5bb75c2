package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestADamagedHEADHarmsItsOwnAgentOnly: an agent's writes to its part of the git directory do not
// stop another agent.
func TestADamagedHEADHarmsItsOwnAgentOnly(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("evil")
	d.add("good")
	dir := d.path("ws", ".polis", "bare-repo.git", "worktrees", "evil")
	for _, spoil := range []string{
		"echo deadbeefdeadbeefdeadbeefdeadbeefdeadbeef", // an unknown object
		"echo 'ref: refs/heads/agent/next'",             // the branch of a future agent
	} {
		d.sh("evil", "cd "+dir+"; cp index /tmp/index; for f in HEAD MERGE_HEAD ORIG_HEAD index; do "+spoil+" > $f; done")
		d.sh("good", "echo "+spoil[:4]+" >> work.txt; git add -A; "+ident+"git commit -q --allow-empty -m work; git log --all --oneline >/dev/null")
		d.must("merge", "good")
		d.must("agents", "add", "next", "--base", "custom")
		d.sh("next", "echo n > n.txt")
		d.must("agents", "diff", "next")
		d.must("agents", "list")
		d.must("conflicts")
		d.must("maintenance", "--now")
		d.must("agents", "remove", "next", "--force")
		d.sh("evil", "cd "+dir+"; echo 'ref: refs/heads/agent/evil' > HEAD; cp /tmp/index index; rm MERGE_HEAD ORIG_HEAD")
		d.sh("evil", "git status")
	}
	d.must("restore", "next")
	d.must("agents", "remove", "next", "--force")
	e := d.refused(api.CodeRefConflict, "agents", "add", "next", "--base", "custom", "--branch", "agent/good")
	require.Contains(t, e.Message, "good")
	d.must("agents", "remove", "evil", "--force")
}
