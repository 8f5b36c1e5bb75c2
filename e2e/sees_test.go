package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestTheDiffOfAForkHasAllThatTheTargetHasNot: also what the first agent had committed, changed and made.
func TestTheDiffOfAForkHasAllThatTheTargetHasNot(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n"})
	d.up()
	d.add("first")
	d.sh("first", "echo committed >> main.txt; git commit -qam one; echo staged > staged.txt; git add staged.txt; echo changed >> README.md; echo new > new.txt")
	d.fork("first", "second")
	d.sh("second", "echo later >> main.txt; git commit -qam two; echo own > own.txt")
	diff := d.must("agents", "diff", "second")
	for _, line := range []string{"+committed", "+later", "+staged", "+changed", "+new", "+own"} {
		require.Contains(t, diff, "\n"+line+"\n")
	}
	require.Equal(t, "README.md\nmain.txt\nnew.txt\nown.txt\nstaged.txt\n", d.must("agents", "diff", "second", "--name-only"))
	committed := d.must("agents", "diff", "second", "--committed")
	require.Contains(t, committed, "\n+committed\n+later\n")
	require.NotContains(t, committed, "own.txt")
}

// TestABranchIsPendingOnlyWithSomethingToMerge: a task that fails and leaves nothing leaves nothing to decide.
func TestABranchIsPendingOnlyWithSomethingToMerge(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	for name, c := range map[string]struct {
		script string
		want   api.MergeStatus
	}{
		"nothing": {"false", ""},
		"files":   {"echo x > loose.txt; false", api.MergePending},
		"commits": {commitOf("a.txt", "a") + "; false", api.MergePending},
	} {
		d.worker(name)
		require.NotZero(t, d.ctl("run", "--wait", name, ident+c.script).code)
		a, _ := d.agent(name)
		require.Equal(t, c.want, a.MergeStatus, name)
	}
	require.NotRegexp(t, `agent/nothing \(`, d.must("agents", "list"))
	require.Contains(t, d.must("agents", "list"), "agent/commits (pending)")
}

// TestAPullRequestNamesTheTasksThatMadeItsCommits: not the last one, which only read.
func TestAPullRequestNamesTheTasksThatMadeItsCommits(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	bare := d.path("remote.git")
	require.NoError(t, os.CopyFS(bare, os.DirFS(filepath.Join(project, ".git"))))
	git(t, bare, "config", "core.bare", "true")
	d.giveAway(bare)
	git(t, project, "remote", "add", "origin", bare)
	d.giveAway(project)
	d.worker("alice", "--auto-merge=false")
	made := ident + commitOf("a.txt", "a") + "; " + commitOf("b.txt", "b")
	d.must("run", "--wait", "alice", made)
	d.must("run", "--wait", "alice", "cat a.txt # explain")
	text := func() (res api.PullResponse) {
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "agents", "pr", "alice", "--dry-run")), &res))
		return res
	}
	require.Contains(t, text().Body, "write a.txt")
	require.Contains(t, text().Body, "## Task\n")
	require.NotContains(t, text().Body, "explain")
	d.must("run", "--wait", "alice", ident+commitOf("c.txt", "c"))
	require.Contains(t, text().Body, "## Tasks\n")
	d.sh("alice", "git commit -q --amend -m amended; git commit -q --allow-empty -m by-hand")
	require.Contains(t, text().Body, "> git config", "the first task's commits are there")
}

// TestListsOfAWorkspaceThatIsNotThere are refused, not empty; a workspace has its path for a name, too.
func TestListsOfAWorkspaceThatIsNotThere(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice")
	d.must("run", "--wait", "alice", "true")
	for _, list := range [][]string{{"agents", "list"}, {"locks"}, {"tasks"}, {"approvals", "list"}, {"approvals", "rules"}, {"conflicts"}, {"queue"}, {"races", "list"},
		{"workers", "list"}, {"snapshot", "list"}, {"patrol", "cases"}, {"usage"}, {"receipts", "show"}} {
		require.NotEmpty(t, d.refused(api.CodeWorkspaceNotFound, append(list, "-w", "nowhere")...).Message, "%v", list)
	}
	for _, ws := range []string{"ws", d.path("ws")} {
		require.Contains(t, d.must("agents", "list", "-w", ws), "alice", ws)
		require.Contains(t, d.must("tasks", "-w", ws), "alice.1", ws)
	}
}
