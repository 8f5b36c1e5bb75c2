package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestACheckpointHasRefsMadeJustBefore: polisd learns of each ref by an event, and a checkpoint may begin before the last
// of them has come.
func TestACheckpointHasRefsMadeJustBefore(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\n"})
	d.up()
	d.add("alice")
	const made = 150 // a checkpoint has at most 200
	d.sh("alice", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "create refs/heads/own-$i HEAD"; i=$((i+1)); done | git update-ref --stdin`, made))
	first := d.checkpoint("alice")
	require.Equal(t, 1+made, len(first.Refs))
	d.sh("alice", "git commit -q --allow-empty -m one; git for-each-ref --format='update %(refname) HEAD' 'refs/heads/own-*' | git update-ref --stdin")
	require.Equal(t, 1+made, len(d.rewind("alice", "--branch", "--to", first.ID).Refs))
}

// TestABranchGoesBack: HEAD, index and the agent's own refs are where they were, in the agent's own eyes, and forth
// again, also after maintenance and a restart of polisd. Others' refs stay, and what the queue knows stays true.
func TestABranchGoesBack(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\n[merge]\ncheck = \"sleep 60\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", `echo one >>main.txt; git commit -qam one; git tag mine; git branch own; echo staged >>main.txt; git add main.txt; echo loose >>main.txt; echo new >untracked`)
	first := d.checkpoint("alice")
	require.Equal(t, "ref: refs/heads/agent/alice", first.Head)
	require.Len(t, first.Refs, 3)
	eyes := func() string {
		return d.sh("alice", "git rev-parse HEAD mine own; git symbolic-ref HEAD; git status --porcelain; git show :main.txt; cat main.txt; (git fsck --connectivity-only 2>&1 | grep -i missing || true)")
	}
	was := eyes()
	d.sh("alice", `git reset -q --hard HEAD~1; git branch -f own HEAD; git tag -f mine HEAD >/dev/null; git checkout -q -b other; echo two >>main.txt; git commit -qam two; rm -f untracked`)
	now, bobs := eyes(), d.sh("bob", "git rev-parse HEAD main")

	var dry api.SnapshotRestored
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "rewind", "alice", "--branch", "--to", first.ID, "--dry-run")), &dry))
	require.Len(t, dry.Refs, 4)
	require.Equal(t, now, eyes())
	d.must("maintenance")
	back := d.rewind("alice", "--branch", "--to", first.ID)
	require.Equal(t, was, eyes())
	require.NotEmpty(t, d.sh("alice", "git rev-parse --verify other"), "a branch that was made since stays")
	d.must("maintenance")
	d.stop()
	d.start()
	d.rewind("alice", "--branch", "--to", back.Before)
	require.Equal(t, now, eyes())
	d.rewind("alice", "--branch", "--to", first.ID)
	require.Equal(t, was, eyes())
	require.Equal(t, bobs, d.sh("bob", "git rev-parse HEAD main"))
	d.sh("alice", "git commit -qam again; git log --oneline -3") // it works there

	// An agent does it itself.
	r := d.exec("alice", "sh", "-c", "polisctl --json rewind --branch --to "+back.Before+" >/dev/null; git rev-parse --abbrev-ref HEAD")
	require.Zero(t, r.code, r)
	if d.topMount("alice") == "overlay" { // see restorable
		require.Contains(t, r.stderr, "change through its overlay only while it runs")
		require.Equal(t, "agent/alice\n", r.stdout)
		d.rewind("alice", "--branch", "--to", back.Before)
	} else {
		require.Equal(t, "other\n", r.stdout)
	}
	require.Equal(t, now, eyes())

	d.sh("alice", "git checkout -q agent/alice; git merge -q --no-commit --no-ff other >/dev/null 2>&1; test -e $(git rev-parse --git-dir)/MERGE_HEAD")
	d.uncovered("alice", func() {
		d.hinted("finish or abort it in the agent; without --branch only the files are brought back", "rewind", "alice", "--branch", "--to", first.ID)
	})
	d.sh("alice", "git merge --abort; git reset -q --hard; git commit -q --allow-empty -m more")
	d.must("queue", "add", "alice")
	d.uncovered("alice", func() {
		d.hinted("polisctl queue remove %s takes it out; without --branch only the files are brought back", "rewind", "alice", "--branch", "--to", first.ID)
		d.must("rewind", "alice", "--to", first.ID)
	})
	d.must("queue", "remove", "alice")
	d.rewind("alice", "--branch", "--to", first.ID)

	d.add("carol", "--deny", "docs/**")
	d.sh("carol", "echo x >carols")
	withheld := d.checkpoint("carol")
	d.hinted("without --branch only the files are brought back", "rewind", "carol", "--branch", "--to", withheld.ID)
	d.must("rewind", "carol", "--to", withheld.ID)
}

// TestAMergedBranchStays: the queue has told that its work is in the target.
func TestAMergedBranchStays(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\n"})
	d.up()
	d.add("alice")
	first := d.checkpoint("alice")
	d.sh("alice", "echo one >>main.txt; git commit -qam one")
	merged := d.checkpoint("alice")
	d.must("merge", "alice")
	d.sh("alice", "echo two >>main.txt; git commit -qam two")
	d.rewind("alice", "--branch", "--to", merged.ID)
	require.Equal(t, "one", strings.TrimSpace(d.sh("alice", "git log -1 --format=%s")))
	d.uncovered("alice", func() {
		d.hinted("polisctl revert %s takes the merge back; without --branch only the files are brought back", "rewind", "alice", "--branch", "--to", first.ID)
		d.must("rewind", "alice", "--to", first.ID)
	})
	d.must("revert", "alice")
	d.rewind("alice", "--branch", "--to", first.ID)
}

// TestARewindThatIsForbiddenDoesNotSayThatTheAgentMustStop: the rewind of a stopped one would be refused, too.
func TestARewindThatIsForbiddenDoesNotSayThatTheAgentMustStop(t *testing.T) {
	d := above(t, options{config: "[snapshots]\nevery = \"0s\"\n[merge]\ncheck = \"sleep 60\"\n"})
	d.add("alice")
	require.Equal(t, "overlay", d.topMount("alice"))
	first := d.checkpoint("alice")
	d.sh("alice", "echo one >>main.txt; git commit -qam one")
	d.must("queue", "add", "alice")
	d.hinted("polisctl queue remove %s takes it out; without --branch only the files are brought back", "rewind", "alice", "--branch", "--to", first.ID)
	d.must("queue", "remove", "alice")
	before := d.sh("alice", "cat main.txt; git rev-parse HEAD")
	d.hinted("polisctl agents stop %s, then restore, then polisctl agents start %s", "rewind", "alice", "--branch", "--to", first.ID)
	require.Equal(t, before, d.sh("alice", "cat main.txt; git rev-parse HEAD"), "nothing was changed")

	d.rewind("alice", "--branch", "--to", first.ID)
}
