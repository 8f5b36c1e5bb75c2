package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheShellCompletesWhatPolisdKnows: identifiers that nobody types by hand.
func TestTheShellCompletesWhatPolisdKnows(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.docs]\nwrite = [\"docs/**\"]\n[merge]\ncheck = \"sleep 600\"\n[snapshots]\nevery = \"1h\"\n"})
	d.up()
	d.add("alice", "--base", "custom", "--auto-merge=false", "--", "sh", "-c")
	d.add("bob", "--base", "custom", "--", "true")
	d.must("run", "--wait", "alice", "echo one > docs/guide.md; "+ident+"git commit -qam one")
	d.must("run", "--wait", "alice", "echo two > docs/guide.md")
	complete := func(words ...string) (out []string) {
		t.Helper()
		for _, line := range strings.Split(d.must(append([]string{"__complete"}, words...)...), "\n") {
			if word, _, _ := strings.Cut(line, "\t"); word != "" && !strings.HasPrefix(word, ":") {
				out = append(out, word)
			}
		}
		return out
	}
	require.Equal(t, []string{"alice.2", "alice.1"}, complete("tasks", "show", ""), "the newest is the first")
	require.Equal(t, []string{"alice.2", "alice.1"}, complete("tasks", "retry", ""))
	require.Equal(t, []string{"alice.2", "alice.1"}, complete("replay", ""))
	require.Contains(t, d.must("__complete", "tasks", "show", ""), "echo two")
	require.Empty(t, complete("tasks", "show", "alice.1", ""))
	require.Contains(t, complete("agents", "add", "x", "--role", ""), "docs")
	require.Equal(t, []string{"ws"}, complete("agents", "list", "--workspace", ""))

	moments := complete("rewind", "alice", "--to", "")
	require.Len(t, moments, 2, "a checkpoint before each task")
	require.Equal(t, moments, complete("diff", "alice", "--from", ""))
	d.must("rewind", "alice", "--to", moments[0], "--dry-run")

	asked := d.asking("alice", "polisctl ask -- make deploy")
	id := d.question("alice").ID
	for _, verb := range []string{"show", "approve", "deny"} {
		require.Equal(t, []string{id}, complete("approvals", verb, ""))
	}
	d.must("approvals", "approve", id)
	<-asked
	require.Empty(t, complete("approvals", "approve", ""))

	require.Empty(t, complete("queue", "remove", ""))
	d.must("queue", "add", "alice")
	require.Equal(t, []string{"alice"}, complete("queue", "remove", ""))
	require.Equal(t, []string{"alice"}, complete("queue", "priority", ""))
	d.must("queue", "remove", "alice")
}
