package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const allObjects = "git cat-file --batch-all-objects --batch-check"

// TestObjectsOfOthersAreNotSeen: an agent's git has no object that another agent has not published,
// and no saved work.
func TestObjectsOfOthersAreNotSeen(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	detached := strings.TrimSpace(d.sh("alice", "git checkout -q --detach; "+ident+"git commit -q --allow-empty -m detached; git rev-parse HEAD"))
	added := strings.TrimSpace(d.sh("alice", "echo TOKEN=added > .env; git add -f .env; git rev-parse :.env"))
	untracked := strings.TrimSpace(d.sh("alice", "echo TOKEN=untracked > secret.txt; git hash-object secret.txt"))
	mine := d.sh("alice", allObjects)
	for _, id := range []string{added, detached} {
		require.Contains(t, mine, id, "an agent sees its own")
	}
	hidden := func(when string) {
		t.Helper()
		for who, seen := range map[string]string{"bob": d.sh("bob", allObjects), "the shared store": git(t, d.bare(), strings.Fields(allObjects)[1:]...)} {
			for what, id := range map[string]string{"added": added, "detached": detached, "untracked": untracked} {
				require.False(t, strings.Contains(seen, id), "%s: %s has %s", when, who, what)
			}
		}
	}
	hidden("while it works")
	require.NotZero(t, d.exec("bob", "cat", filepath.Join(d.internal(), "HEAD")).code)

	// A commit on its branch is visible to all at once.
	commit := strings.TrimSpace(d.sh("bob", "echo b > b.txt; git add b.txt; "+ident+"git commit -qm b; git rev-parse HEAD"))
	require.Equal(t, "b\n", d.sh("alice", "git show "+commit+":b.txt"))
	hidden("when another published something")

	require.Contains(t, d.must("agents", "diff", "alice"), "TOKEN=added")
	d.must("agents", "remove", "alice", "--force")
	hidden("when it was removed")
	kept := git(t, d.internal(), strings.Fields(allObjects)[1:]...)
	for _, id := range []string{added, detached, untracked} {
		require.Contains(t, kept, id)
	}
	d.must("maintenance", "--now")
	d.must("restore", "alice")
	require.Equal(t, "TOKEN=added\nTOKEN=untracked\n"+detached+"\n", d.sh("alice", "cat .env secret.txt; git rev-parse HEAD; git fsck --full >/dev/null"))
	detached = added // its commit is on a branch now
	hidden("when it is back")
	d.must("maintenance", "--now")
	require.Equal(t, added+"\n", d.sh("alice", "git rev-parse :.env; git cat-file -e :.env"))
	d.sh("bob", ident+"git commit -q --allow-empty -m more")
	d.must("merge", "bob")
}
