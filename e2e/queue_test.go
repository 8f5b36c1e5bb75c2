package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// worker adds an agent whose task is a shell script.
func (d *daemon) worker(name string, flags ...string) {
	d.t.Helper()
	d.must(append(append([]string{"agents", "add", name, "--base", "custom"}, flags...), "--", "sh", "-ec")...)
}

// task has an agent run a script and commit what it did.
func (d *daemon) task(name, script string) {
	d.t.Helper()
	d.must("agents", "run", name, ident+script)
}

func commitOf(file, text string) string {
	return fmt.Sprintf("echo %q > %s; git add -A; git commit -qm %q", text, file, "write "+file)
}

func (d *daemon) queues() api.Queue {
	d.t.Helper()
	var list struct{ Queues []api.Queue }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "queue")), &list))
	require.Len(d.t, list.Queues, 1)
	return list.Queues[0]
}

// fate waits for the outcome of the agent's branch.
func (d *daemon) fate(name string, want api.MergeStatus) api.Agent {
	d.t.Helper()
	var a api.Agent
	d.eventually(name+" is "+string(want), func() bool {
		a, _ = d.agent(name)
		return a.MergeStatus == want
	})
	return a
}

func (d *daemon) bare() string { return d.path("ws", ".polis", "bare-repo.git") }

// internal is the repository with the trash.
func (d *daemon) internal() string { return d.path("ws", ".polis", "internal.git") }

// TestTenAgentsFinishAtOnce is a part of seed 001: ten merges, one after the other, each of which
// can be reverted.
func TestTenAgentsFinishAtOnce(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	const n = 10
	name := func(i int) string { return fmt.Sprintf("agent%02d", i) }
	for i := range n {
		d.worker(name(i), "--memory", "64")
	}
	var wg sync.WaitGroup
	results := make([]result, n)
	for i := range n {
		wg.Go(func() { results[i] = d.ctl("agents", "run", name(i), ident+commitOf(name(i)+".txt", name(i))) })
	}
	wg.Wait()
	shas := map[string]bool{}
	for i := range n {
		require.Zero(t, results[i].code, results[i])
		a := d.fate(name(i), api.MergeMerged)
		require.NotEmpty(t, a.MergeCommitSHA)
		require.NotEmpty(t, a.WorktreePath)
		shas[a.MergeCommitSHA] = true
	}
	require.Len(t, shas, n)
	d.eventually("the queue has recorded all of them", func() bool {
		q := d.queues()
		return len(q.Entries) == 0 && len(q.Recent) == n
	})
	line := strings.Fields(git(t, d.bare(), "rev-list", "--first-parent", "--min-parents=2", "main"))
	require.Len(t, line, n)
	for _, sha := range line {
		require.True(t, shas[sha], "every merge on the line is an agent's")
	}
	require.Equal(t, strings.TrimSpace(git(t, d.bare(), "rev-parse", "main")), strings.TrimSpace(git(t, project, "rev-parse", "HEAD")), "the clean checkout came along")
	require.Empty(t, git(t, project, "status", "--porcelain"))
	require.FileExists(t, filepath.Join(project, name(3)+".txt"))

	for i := range n {
		var r api.RevertResponse
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "revert", name(i))), &r))
		require.Equal(t, api.MergeReverted, r.MergeStatus)
		require.NoFileExists(t, filepath.Join(project, name(i)+".txt"))
		if i == 0 {
			require.NoError(t, json.Unmarshal([]byte(d.must("--json", "revert", name(0))), &r))
			require.True(t, r.Already, "once is enough")
		}
	}
	require.Equal(t, "10\n", git(t, d.bare(), "rev-list", "--count", "--first-parent", "--max-parents=1", "main", "--not", line[len(line)-1]))
	git(t, d.bare(), "fsck", "--strict")
}

// TestACheckStandsBetweenABranchAndItsTarget: a branch that fails it stays pending with its log,
// and the rest of its batch is merged.
func TestACheckStandsBetweenABranchAndItsTarget(t *testing.T) {
	d := startDaemon(t, options{config: `
[merge]
check = """
echo checking in $PWD as $(id -u); test ! -e .git; test ! -e bad.txt
ip link 2>/dev/null | grep -v lo: || true; ! curl -m 2 -s http://1.1.1.1 >/dev/null 2>&1
touch ../x 2>/dev/null && exit 9; echo fine > built.txt
"""
check_timeout = "60s"
`})
	project := d.up()
	for _, n := range []string{"good", "evil", "fine"} {
		d.add(n)
		file := n + ".txt"
		if n == "evil" {
			file = "bad.txt"
		}
		d.sh(n, ident+commitOf(file, n))
	}
	before := strings.TrimSpace(git(t, d.bare(), "rev-parse", "main"))
	r := d.ctl("--json", "merge", "--all")
	require.NotZero(t, r.code, r)
	require.Contains(t, r.stderr, string(api.CodeCheckFailed))
	d.fate("good", api.MergeMerged)
	d.fate("fine", api.MergeMerged)
	a := d.fate("evil", api.MergePending)
	require.Empty(t, a.MergeCommitSHA)
	require.FileExists(t, filepath.Join(project, "good.txt"))
	require.NoFileExists(t, filepath.Join(project, "bad.txt"))
	require.NoFileExists(t, filepath.Join(project, "built.txt"))
	var failed api.QueueOutcome
	d.eventually("the queue knows its outcome", func() bool {
		recent := d.queues().Recent
		i := slices.IndexFunc(recent, func(o api.QueueOutcome) bool { return o.Agent == "evil" })
		if i >= 0 {
			failed = recent[i]
		}
		return i >= 0
	})
	require.Equal(t, api.CodeCheckFailed, failed.Code)
	require.Contains(t, readFile(failed.Log), "checking in "+project)
	require.NotEqual(t, before, strings.TrimSpace(git(t, d.bare(), "rev-parse", "main")))
	require.Empty(t, glob(d.path("run", "agents", "polis-check-*")))
	require.NoDirExists(t, d.path("ws", ".polis", "check"))
	e := d.refused(api.CodeCheckFailed, "merge", "evil")
	require.Contains(t, e.Details["output"], "checking in")
	d.must("merge", "evil", "--no-check")
	require.FileExists(t, filepath.Join(project, "bad.txt"))
	d.refused(api.CodeInvalidName, "agents", "add", "polis-check-mine", "--base", "custom")
}

// TestAQueueOutlivesADaemonThatIsKilledAtWork kills polisd while a merge is
// checked, and after the target has moved.
func TestAQueueOutlivesADaemonThatIsKilledAtWork(t *testing.T) {
	d := startDaemon(t, options{config: "[merge]\ncheck = \"test -e /var/tmp/never || sleep 2\"\n"})
	d.up()
	for _, n := range []string{"one", "two"} {
		d.add(n)
		d.sh(n, ident+commitOf(n+".txt", n))
	}
	d.must("queue", "add", "one", "-p", "-3")
	d.eventually("one is being checked", func() bool {
		es := d.queues().Entries
		return len(es) == 1 && es[0].State == api.QueueChecking
	})
	d.must("queue", "add", "two")
	d.must("queue", "priority", "two", "7")
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	one, two := d.fate("one", api.MergeMerged), d.fate("two", api.MergeMerged)
	d.eventually("the queue is empty", func() bool { return len(d.queues().Entries) == 0 })
	line := strings.Fields(git(t, d.bare(), "rev-list", "--first-parent", "--min-parents=2", "main"))
	require.ElementsMatch(t, []string{one.MergeCommitSHA, two.MergeCommitSHA}, line)
	require.Equal(t, two.MergeCommitSHA, line[1], "the one with the higher priority first")

	// Merged in git, and the daemon died before it could record it.
	d.sh("one", commitOf("more.txt", "more"))
	require.Error(t, d.signal(syscall.SIGKILL))
	bare := d.bare()
	tree := strings.TrimSpace(git(t, bare, "merge-tree", "--write-tree", "main", "agent/one"))
	merged := strings.TrimSpace(git(t, bare, "commit-tree", tree, "-p", "main", "-p", "agent/one", "-m", "Merge"))
	git(t, bare, "update-ref", "refs/heads/main", merged)
	d.giveAway(filepath.Join(bare, "objects"))
	require.NoError(t, os.Lchown(filepath.Join(bare, "refs", "heads", "main"), owner, owner))
	d.start()
	d.must("queue", "add", "one", "--no-check")
	d.eventually("it is found merged", func() bool {
		a, _ := d.agent("one")
		return a.MergeCommitSHA == merged
	})
}

// TestOutcomesOfTasks: only a task that ends well is merged automatically.
func TestOutcomesOfTasks(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.worker("fails")
	d.task("fails", commitOf("f.txt", "f")+"; exit 3")
	d.worker("killed")
	d.task("killed", commitOf("k.txt", "k")+"; sleep 1000")
	d.worker("alone", "--auto-merge=false")
	d.task("alone", commitOf("a.txt", "a"))
	d.worker("loose")
	d.task("loose", "echo x > loose.txt")
	d.worker("idle")
	d.task("idle", "true")
	d.eventually("killed has committed", func() bool {
		return strings.Contains(d.exec("killed", "git", "log", "-1", "--format=%s").stdout, "k.txt")
	})
	d.must("agents", "stop", "killed")
	d.fate("killed", api.MergePending)
	d.fate("fails", api.MergePending)
	d.fate("loose", api.MergePending)
	d.eventually("alone has ended", func() bool { a, _ := d.agent("alone"); return a.Status == api.StatusIdle })
	d.eventually("idle has ended", func() bool { return len(d.queues().Recent) == 2 })
	for _, n := range []string{"alone", "idle"} {
		a, _ := d.agent(n)
		require.Empty(t, a.MergeStatus, n)
	}
	require.Empty(t, git(t, project, "log", "--merges", "--oneline"))
	d.must("merge", "killed")
	d.fate("killed", api.MergeMerged)
	require.FileExists(t, filepath.Join(project, "k.txt"))
}

// TestAConflictIsLeftToTheAgent: it is pending with its paths. The target is merged into the
// agent's worktree, the agent resolves the conflict, and the branch is merged.
func TestAConflictIsLeftToTheAgent(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\nwait = \"300ms\"\ngrace = \"2s\"\n"})
	project := d.up()
	for _, n := range []string{"first", "second"} {
		d.worker(n)
		d.sh(n, ident+commitOf("main.txt", n))
	}
	d.must("merge", "first")
	e := d.refused(api.CodeMergeConflict, "merge", "second")
	require.Equal(t, []any{"main.txt"}, e.Details["paths"])
	a := d.fate("second", api.MergePending)
	require.Equal(t, "agent/second", a.Branch)
	require.NotEmpty(t, a.WorktreePath)
	e = d.refused(api.CodeMergeConflict, "agents", "rebase", "second")
	require.Equal(t, []any{"main.txt"}, e.Details["paths"])
	require.Contains(t, d.sh("second", "cat main.txt"), "<<<<<<<")
	d.refused(api.CodeMergeConflict, "agents", "rebase", "second") // it still waits
	d.task("second", "echo both > main.txt; git add -A; git commit -qm resolved")
	d.fate("second", api.MergeMerged)
	require.Equal(t, "both\n", readFile(filepath.Join(project, "main.txt")))
	d.must("agents", "rebase", "second")

	// A merge that later merges build on is not reverted, and the error gives the reason.
	e = d.refused(api.CodeMergeConflict, "revert", "first")
	require.Equal(t, []any{"main.txt"}, e.Details["paths"])
	require.InDelta(t, 1, e.Details["later"], 0)
	d.refused(api.CodeBadState, "revert", d.addNew("fresh"))
}

func (d *daemon) addNew(name string) string { d.add(name); return name }

// TestADirtyCheckoutIsNotTouched, and is fast-forwarded when it is clean.
func TestADirtyCheckoutIsNotTouched(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("alice")
	d.sh("alice", ident+commitOf("a.txt", "a"))
	require.NoError(t, os.WriteFile(filepath.Join(project, "main.txt"), []byte("mine\n"), 0o644))
	var r api.MergeResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "merge", "alice")), &r))
	require.Equal(t, "left alone", r.Project)
	require.Contains(t, r.Note, "merge --ff-only")
	require.Equal(t, "mine\n", readFile(filepath.Join(project, "main.txt")))
	require.NoFileExists(t, filepath.Join(project, "a.txt"))
	git(t, project, "checkout", "-q", "main.txt")
	d.giveAway(project)
	d.sh("alice", commitOf("b.txt", "b"))
	d.must("merge", "alice")
	require.FileExists(t, filepath.Join(project, "a.txt"))
	require.FileExists(t, filepath.Join(project, "b.txt"))
}

// TestDiscardedAndRemovedWorkIsRestored: discard and remove save everything in the trash, restore brings it
// back, gc ends it.
func TestDiscardedAndRemovedWorkIsRestored(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--memory", "128", "--port", "3000", "--deny", "secret/**")
	d.sh("alice", ident+commitOf("done.txt", "done")+"; echo staged > staged.txt; git add staged.txt; echo loose > loose.txt; echo changed > main.txt; mkdir -p build; echo object > build/o; rm run.sh")
	diff := d.must("agents", "diff", "alice")
	for _, want := range []string{"+done", "+staged", "+loose", "+changed", "deleted file"} {
		require.Contains(t, diff, want)
	}
	require.Equal(t, "done.txt\n", d.must("agents", "diff", "alice", "--name-only", "--committed"))
	e := d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	require.Contains(t, e.Message, "1 commit not in main")
	before := d.sh("alice", "git status --porcelain; git log --format=%H; cat main.txt loose.txt staged.txt; git show :staged.txt")
	d.must("discard", "alice", "--yes", "--ignored")
	require.NoDirExists(t, d.path("ws", ".polis", "worktrees", "alice"))
	require.Empty(t, git(t, d.bare(), "branch", "--list", "agent/alice"))
	d.must("restore", "alice")
	a, _ := d.agent("alice")
	require.Equal(t, 128, a.MemoryLimitMB)
	require.Equal(t, []string{"secret/**"}, a.Policy.Deny)
	require.Len(t, a.PortMappings, 1)
	require.Equal(t, before, d.sh("alice", "git status --porcelain; git log --format=%H; cat main.txt loose.txt staged.txt; git show :staged.txt"))
	require.Equal(t, "object\n", d.sh("alice", "cat build/o"))
	d.refused(api.CodeAgentExists, "restore", "alice")
	d.must("agents", "remove", "alice", "--force")
	d.must("restore", "alice", "--as", "alice2")
	require.Equal(t, "loose\n", d.sh("alice2", "cat loose.txt"))

	// An agent all of whose work is in the target comes back on its branch.
	d.add("bob")
	d.sh("bob", ident+commitOf("b.txt", "b"))
	d.must("merge", "bob")
	d.must("agents", "remove", "bob")
	d.must("restore", "bob")
	require.Equal(t, "b\n", d.sh("bob", "cat b.txt"))
	d.refused(api.CodeNotFound, "restore", "nobody")

	var gc api.GCResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "gc", "--dry-run")), &gc))
	require.Empty(t, gc.Removed)
	require.NotEmpty(t, gc.Kept)
	require.Positive(t, gc.Kept[0].Bytes)
	time.Sleep(1100 * time.Millisecond)
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "gc", "--before", "1s")), &gc))
	require.Empty(t, gc.Kept)
	require.Empty(t, git(t, d.internal(), "for-each-ref", "refs/polis/trash"))
	d.must("discard", "bob", "--yes")
}
