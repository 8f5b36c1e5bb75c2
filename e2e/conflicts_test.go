package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (d *daemon) conflicts() api.Conflicts {
	d.t.Helper()
	var res struct{ Conflicts []api.Conflicts }
	decode(d.t, d.must("--json", "conflicts"), &res)
	require.Len(d.t, res.Conflicts, 1)
	require.Empty(d.t, res.Conflicts[0].Errors)
	return res.Conflicts[0]
}

// happened returns the events of one type, oldest first.
func (d *daemon) happened(kind string) (found []api.Event) {
	d.t.Helper()
	var res struct{ Events []api.Event }
	decode(d.t, d.must("--json", "events"), &res)
	for _, e := range res.Events {
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}

// TestConflictsAreSeenBeforeTheyHappen has two agents change one file, one after the other, without
// knowing of each other.
func TestConflictsAreSeenBeforeTheyHappen(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"60s\"\nhold = \"1s\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	require.Contains(t, d.must("conflicts"), "every branch merges")
	require.Contains(t, d.must("status"), "conflicts   none")

	// Alice holds the file, and bob has changed another: no conflict. Then he tries to write hers.
	d.sh("alice", "sed -i s/one/alice/ main.txt; git commit -qam alice")
	d.sh("bob", "echo b >> src/b.txt; git commit -qam b")
	require.Empty(t, d.conflicts().Merges)
	d.must("lock", "README.md", "--agent", "alice", "--workspace", d.path("ws"))
	done := make(chan result, 1)
	go func() { done <- d.exec("bob", "sh", "-c", "echo x >> README.md") }()
	d.eventually("bob to be seen waiting", func() bool {
		for _, p := range d.conflicts().Paths {
			if p.Path == "README.md" && len(p.AwaitedBy) > 0 {
				require.Equal(t, []string{"alice"}, p.LeasedBy)
				require.Equal(t, []string{"bob"}, p.AwaitedBy)
				return true
			}
		}
		return false
	})
	d.must("unlock", "README.md", "--agent", "alice", "--workspace", d.path("ws"))
	require.Zero(t, (<-done).code)

	// The lease of main.txt has ended, so bob may change the file. No commit has the change yet.
	d.sh("bob", "sed -i s/one/bob/ main.txt")
	d.eventually("the shared path to be seen", func() bool {
		for _, p := range d.conflicts().Paths {
			if p.Path == "main.txt" {
				return len(p.ChangedBy) == 2 && p.ChangedBy[0].Committed && p.ChangedBy[1].Uncommitted && !p.ChangedBy[1].Committed
			}
		}
		return false
	})
	require.Contains(t, d.must("conflicts"), "alice, bob*")
	require.Empty(t, d.happened(api.EventConflictFound))

	// He commits with plain git, and an event reports the conflict.
	d.sh("bob", "git commit -qm bob main.txt")
	d.eventually("the event of the conflict", func() bool { return len(d.happened(api.EventConflictFound)) == 1 })
	require.Contains(t, d.happened(api.EventConflictFound)[0].Message, "main.txt")
	c := d.conflicts()
	require.Len(t, c.Merges, 1)
	require.Equal(t, []string{"alice", "bob"}, c.Merges[0].Agents)
	require.Equal(t, []string{"main.txt"}, c.Merges[0].Paths)
	require.Contains(t, d.must("status"), "conflicts   1 merge, 1 path")

	// The first branch is merged. The conflict of two branches becomes one with the target, as
	// merge reports.
	d.must("merge", "alice")
	d.eventually("the conflict with the target", func() bool {
		c := d.conflicts()
		return len(c.Merges) == 1 && len(c.Merges[0].Agents) == 1
	})
	d.refused(api.CodeMergeConflict, "merge", "bob")
	// Bob merges the target, as the hint says, and the conflict is resolved.
	d.sh("bob", "git merge -q main || { git checkout -q --theirs main.txt && git add main.txt && git commit -qm resolved; }")
	d.eventually("the event of its end", func() bool { return len(d.happened(api.EventConflictGone)) == 2 })
	require.Contains(t, d.must("conflicts"), "every branch merges")
	d.must("merge", "bob")
}
