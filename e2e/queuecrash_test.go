package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestPolisdDiesWhileItRestores: either the agent is restored completely, or everything is still in
// the trash, once. The next start reports it.
func TestPolisdDiesWhileItRestores(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	d.up()
	d.add("bob")
	d.sh("bob", "echo bob > bob.txt")
	d.add("alice", "--port", "3000")
	d.sh("alice", "echo one > committed.txt; git add -A; git commit -qm one; echo staged > staged.txt; git add staged.txt; echo precious > untracked.txt; rm README.md")
	want := d.sh("alice", "git status --porcelain; git log --format=%s; cat committed.txt staged.txt untracked.txt")
	restore := func() result { return d.ctl("restore", "alice") }
	trash := func() []string {
		return strings.Fields(git(t, d.internal(), "for-each-ref", "refs/polis/trash/alice", "--format=%(refname)"))
	}
	d.must("agents", "remove", "alice", "--force")
	require.Zero(t, restore().code) // makes the base tree, if there is one, which stays
	d.must("agents", "remove", "alice", "--force")
	steps := d.steps(restore)
	require.Subset(t, steps, []string{"state:written", "restore:noted", "worktree:directory", "worktree:made", "restore:files", "up:network namespace", "up:shim", "restore:done"})
	for _, step := range steps {
		d.must("agents", "remove", "alice", "--force")
		refs := trash()
		d.dieAt(step, restore)
		rep := d.report()
		require.Empty(t, rep.Errors, step)
		if _, there := d.agent("alice"); !there {
			require.NotEqual(t, "restore:done", step)
			if step != "state:written" { // nothing was done yet
				require.Contains(t, strings.Join(rep.Healed, "\n"), "alice: was being restored", step)
			}
			d.nothingOf("alice", step)
			require.Equal(t, refs, trash(), "%s: kept once", step)
			d.must("restore", "alice")
		}
		require.Equal(t, want, d.sh("alice", "git status --porcelain; git log --format=%s; cat committed.txt staged.txt untracked.txt"), step)
		require.NotZero(t, d.ports("alice")[3000].External, step)
	}
	require.Equal(t, "bob\n", d.sh("bob", "cat bob.txt"), "and bob works on")
}

// TestPolisdDiesInItsQueue at every step from the end of a task to its record, with a check. The
// next polisd merges the branch into the target once, reports that it continued, and leaves nothing
// of the check.
func TestPolisdDiesInItsQueue(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: "[merge]\ncheck = \"test -e main.txt\"\n"})
	project := d.up()
	d.worker("alice")
	n := 0
	task := func() result {
		n++
		r := d.ctl("agents", "run", "alice", ident+"echo x >> queued.txt; git add -A; git commit -qm work")
		d.eventually("the branch has met its fate, or polisd its end", func() bool {
			select {
			case err := <-d.done:
				d.done <- err
				return true
			default:
			}
			q, a := d.ctl("--json", "queue"), d.ctl("--json", "agents", "list")
			return q.code == 0 && strings.Contains(q.stdout, `"entries": []`) && strings.Contains(a.stdout, `"merge_status": "merged"`) &&
				readFile(filepath.Join(project, "queued.txt")) == strings.Repeat("x\n", n)
		})
		return r
	}
	steps := d.steps(task)
	must := []string{"queue:added", "queue:merged", "check:running", "queue:checked", "target:moved", "project:fetched", "project:forward", "queue:answered", "state:written"}
	require.Subset(t, steps, must)
	for _, step := range must {
		d.dieAt(step, task)
		rep := d.report()
		require.Empty(t, rep.Errors, step)
		if step != "state:written" { // before the task, or after all
			require.Contains(t, strings.Join(rep.Healed, "\n"), "alice: was in the merge queue", step)
		}
		if step == "state:written" { // the task may not have been noted, or even begun
			d.eventually("the task is over", func() bool { a, _ := d.agent("alice"); return a.Status != api.StatusRunning })
			if !strings.Contains(d.sh("alice", "cat queued.txt"), strings.Repeat("x\n", n)) {
				n--
				task()
			}
		}
		d.eventually("the merge after "+step, func() bool {
			a, _ := d.agent("alice")
			return len(d.queues().Entries) == 0 && a.MergeStatus == api.MergeMerged && readFile(filepath.Join(project, "queued.txt")) == strings.Repeat("x\n", n) &&
				a.MergeCommitSHA == strings.TrimSpace(git(t, d.bare(), "rev-parse", "main"))
		})
		require.Empty(t, git(t, project, "status", "--short"), step)
		require.Equal(t, n, strings.Count(git(t, d.bare(), "log", "--first-parent", "--merges", "--format=%H", "main"), "\n"), "each merged once, after %s", step)
		require.Empty(t, glob(d.path("run", "agents", "polis-check-*")), step)
		require.NoDirExists(t, d.path("ws", ".polis", "check"), step)
	}
}
