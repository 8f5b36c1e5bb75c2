package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// tasks are the records of an agent's tasks, the newest last.
func (d *daemon) tasks(agent string) []api.Task {
	d.t.Helper()
	var out struct{ Tasks []api.Task }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "agents", "tasks", agent)), &out))
	return out.Tasks
}

// settled waits until the agent's last task has an outcome that stays.
func (d *daemon) settled(agent string) api.Task {
	d.t.Helper()
	var last api.Task
	d.eventually("the task of "+agent+" is settled", func() bool {
		all := d.tasks(agent)
		last = all[len(all)-1]
		return last.Final
	})
	return last
}

// TestEveryTaskHasAResult: how a task ended, and the result of its branch, is in
// its record, in the list of agents and in the events.
func TestEveryTaskHasAResult(t *testing.T) {
	d := startDaemon(t, options{config: "[merge]\ncheck = \"test ! -e broken.txt\"\n"})
	project := d.up()
	d.worker("alice")
	commit := func(file, text string) string {
		return ident + "echo " + text + " >> " + file + "; git add -A; git commit -qm " + text
	}
	for _, c := range []struct {
		script string
		want   api.TaskOutcome
		result string
		code   int
	}{
		{commit("one.txt", "one") + "; " + commit("one.txt", "two"), api.OutcomeMerged, "merged as ", 0},
		{"exit 3", api.OutcomeFailed, "failed (exit 3)", 3},
		{"true", api.OutcomeNothing, "nothing to merge", 0},
		{"echo x > left.txt; echo y > over.txt", api.OutcomeUncommitted, "uncommitted: 2 files", 0},
		{"rm left.txt over.txt; " + commit("broken.txt", "broken"), api.OutcomeCheckFailed, "check failed", 0},
		{"git reset -q --hard HEAD~1; kill -9 $$", api.OutcomeFailed, "failed (exit 137)", 137},
	} {
		d.must("agents", "run", "alice", c.script)
		got := d.settled("alice")
		require.Equal(t, c.want, got.Outcome, "%s: %+v", c.script, got)
		require.Contains(t, got.Result, c.result)
		require.Equal(t, api.EndExit, got.EndedBy)
		require.Equal(t, c.code, *got.ExitCode)
		require.NotNil(t, got.Ended)
		require.NotNil(t, got.Output)
		require.Greater(t, got.Output.To, got.Output.From)
		a, _ := d.agent("alice")
		require.Equal(t, got.Result, a.Task.Result)
		require.Contains(t, d.must("agents", "list"), c.result)
	}
	all := d.tasks("alice")
	require.Equal(t, 2, all[0].Commits)
	require.Equal(t, "one\ntwo\n", readFile(filepath.Join(project, "one.txt")))

	// A conflict: the target changes the same line after the task has begun; a change before
	// would be in what it begins with (on_start).
	d.must("agents", "run", "alice", "touch $HOME/began; while ! test -e $HOME/go; do sleep 0.05; done; "+ident+"echo mine > one.txt; git commit -qam mine")
	d.eventually("the task has begun", func() bool { return len(glob(d.home("alice", "began"))) == 1 })
	writeFile(t, filepath.Join(project, "one.txt"), "theirs\n")
	git(t, project, "commit", "-qam", "theirs")
	require.NoError(t, os.WriteFile(d.home("alice", "go"), nil, 0o644))
	require.Equal(t, "conflict: one.txt", d.settled("alice").Result)
	require.Contains(t, d.must("--json", "events"), "conflict: one.txt")

	// Stopped while it works.
	d.must("agents", "run", "alice", "sleep 1000")
	d.must("agents", "stop", "alice")
	require.Equal(t, "stopped", d.settled("alice").Result)
}

// TestATaskIsDoneWhenItsAgentReportsIt: the program continues, and the branch is merged. What the
// program does afterwards changes nothing.
func TestATaskIsDoneWhenItsAgentReportsIt(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.worker("alice")
	d.must("agents", "run", "alice", ident+`echo work > work.txt; git add -A; git commit -qm work
		polisctl done all is well; polisctl done again
		while ! test -e /tmp/end; do sleep 0.05; done; exit 3`)
	got := d.settled("alice")
	require.Equal(t, api.OutcomeMerged, got.Outcome, "%+v", got)
	require.Equal(t, api.EndDone, got.EndedBy)
	require.Equal(t, "all is well", got.Message)
	require.Equal(t, "work\n", readFile(filepath.Join(project, "work.txt")))
	a, _ := d.agent("alice")
	require.Equal(t, api.StatusRunning, a.Status, "its program has not ended")
	d.eventually("a second report is logged", func() bool {
		return strings.Contains(d.must("agents", "watch", "alice"), "task "+got.ID+" had ended already")
	})
	d.must("agents", "exec", "alice", "--", "touch", "/tmp/end")
	d.eventually("the program has ended", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })
	require.Equal(t, got, d.settled("alice"), "set once")

	d.must("agents", "run", "alice", "polisctl done --failed cannot do it; exit 0")
	got = d.settled("alice")
	require.Equal(t, "failed (as the agent says)", got.Result)
	require.Equal(t, "cannot do it", got.Message)
	// There is nothing to end any more.
	r := d.ctl("agents", "exec", "alice", "--", "polisctl", "done")
	require.Equal(t, 4, r.code, r.stderr)
	require.Contains(t, r.stderr, "works on no task")
}

// TestATaskEndsWhilePolisdIsAway: the next polisd uses the agent's report and the program's end. It
// uses them also if the agent's shim has died by then.
func TestATaskEndsWhilePolisdIsAway(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	// Without polisd no lease is granted, so all work is done before. Ignored files need no lease.
	writeFile(t, filepath.Join(project, ".gitignore"), "go\nready\nworked\n")
	git(t, project, "add", ".gitignore")
	git(t, project, "commit", "-qm", "ignore")
	view := func(name, file string) string { return d.path("ws", ".polis", "worktrees", name, file) }
	there := func(name, file string) {
		d.eventually(name+" has "+file, func() bool { _, err := os.Stat(view(name, file)); return err == nil })
	}
	scripts := map[string]string{"alice": "touch worked; exit 0", "bob": "polisctl done; touch worked; sleep 1000", "carol": "touch worked; exit 7",
		"dora": "polisctl done reported; touch worked; sleep 1000", "erik": "touch worked; exit 0", "fred": "echo last; touch worked; exit 9",
		"gina": "trap 'exit 0' TERM; touch worked; while :; do sleep 0.05; done"}
	for name, script := range scripts {
		d.worker(name)
		d.must("agents", "run", name, ident+"echo x > "+name+".txt; git add -A; git commit -qm work; touch ready; while ! test -e go; do sleep 0.05; done; "+script)
		there(name, "ready")
	}
	_ = d.signal(syscall.SIGKILL)
	for name := range scripts {
		writeFile(t, view(name, "go"), "")
		there(name, "worked")
	}
	for _, name := range []string{"erik", "fred"} {
		d.eventually("the exit of "+name+"'s program is saved", func() bool { return len(glob(d.path("ws", ".polis", "logs", name, "exit.json"))) == 1 })
	}
	died := time.Now()
	for _, name := range []string{"dora", "erik", "fred"} {
		require.NoError(t, syscall.Kill(d.shim(name), syscall.SIGKILL))
	}
	// A program that ends because its shim is stopped has not ended its task.
	stopped := d.shim("gina")
	require.NoError(t, syscall.Kill(stopped, syscall.SIGTERM))
	d.eventually("the shim has ended", func() bool { return syscall.Kill(stopped, 0) != nil })
	d.start()
	for name, want := range map[string]api.TaskOutcome{"alice": api.OutcomeMerged, "bob": api.OutcomeMerged, "carol": api.OutcomeFailed, "dora": api.OutcomeMerged,
		"erik": api.OutcomeMerged, "fred": api.OutcomeFailed, "gina": api.OutcomeLost} {
		require.Equal(t, want, d.settled(name).Outcome, name)
	}
	reported := d.settled("dora")
	require.Equal(t, []any{api.EndDone, "reported"}, []any{reported.EndedBy, reported.Message})
	require.True(t, reported.Ended.Before(died), "it ended when the agent reported it, at %s", reported.Ended)
	exited := d.settled("fred")
	require.Equal(t, []any{api.EndExit, 9}, []any{exited.EndedBy, *exited.ExitCode})
	require.True(t, exited.Ended.Before(died), "it ended when its program exited, at %s", exited.Ended)
	require.NotNil(t, exited.Use)
	out, err := os.ReadFile(d.path("ws", ".polis", "logs", "fred", "output.log"))
	require.NoError(t, err)
	require.Contains(t, string(out[exited.Output.From:exited.Output.To]), "last")
	require.FileExists(t, filepath.Join(project, "alice.txt"))
	require.FileExists(t, filepath.Join(project, "erik.txt"))
	require.FileExists(t, filepath.Join(project, "bob.txt"))
	require.NoFileExists(t, filepath.Join(project, "carol.txt"))
	require.NoFileExists(t, filepath.Join(project, "gina.txt"))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// TestTasksAreShownCancelledAndRetried by their ID.
func TestTasksAreShownCancelledAndRetried(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice", "--deny", "secret*", "--write", "**", "--temp")
	run := func(script string) string {
		var task api.Task
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "agents", "run", "alice", ident+script)), &task))
		return task.ID
	}
	show := func(id string) api.Task {
		var task api.Task
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "tasks", "show", id)), &task))
		return task
	}
	one := run("echo hello; echo x > secret.txt || true; echo one > one.txt; git add one.txt; git commit -qm one")
	require.Equal(t, api.OutcomeMerged, d.settled("alice").Outcome)
	got := show(one)
	require.NotEmpty(t, got.Refused)
	require.Equal(t, "secret.txt", got.Refused[len(got.Refused)-1].Path)
	require.Positive(t, got.Use.WritesDenied)
	text := d.must("tasks", "show", one)
	require.Contains(t, text, "one.txt | 1 +")
	require.Contains(t, text, "1 write")
	require.Contains(t, d.must("tasks", "show", one, "--diff"), "+one")
	require.Contains(t, d.must("tasks", "show", one, "--output"), "hello\n")

	two := run("echo other; sleep 1000")
	r := d.ctl("tasks", "retry", two)
	require.Equal(t, 4, r.code, "%s", r)
	require.Contains(t, d.must("tasks", "cancel", two), "cancelled")
	require.Equal(t, "cancelled", show(two).Result)
	require.NotContains(t, d.must("tasks", "show", two, "--output"), "hello")
	require.Equal(t, 4, d.ctl("tasks", "cancel", two).code, "it has ended")

	var again api.Task
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "tasks", "retry", one)), &again))
	require.Equal(t, one, again.RetryOf)
	d.settled("alice")
	require.Contains(t, d.must("tasks"), again.ID)
	require.Contains(t, d.must("tasks", "alice", "-n", "1"), again.ID)
	require.NotContains(t, d.must("tasks", "alice", "-n", "1"), two)
	require.Equal(t, 3, d.ctl("tasks", "show", "alice.99").code)
	require.Equal(t, 2, d.ctl("tasks", "show", "alice").code)
}

// TestWorkInNoCommitIsCommittedOnRequest by the role, by a flag of run, or by a command.
func TestWorkInNoCommitIsCommittedOnRequest(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.tidy]\nread = [\"**\"]\nwrite = [\"**\"]\nauto_commit = true\n"})
	project := d.up()
	d.worker("alice", "--role", "tidy")
	d.worker("bob")
	d.must("agents", "run", "alice", ident+"echo a > a.txt; mkdir -p d; echo b > d/b.txt\n# the rest of the task")
	got := d.settled("alice")
	require.Equal(t, api.OutcomeMerged, got.Outcome, "%+v", got)
	require.Equal(t, 1, got.Commits)
	require.Equal(t, "b\n", readFile(filepath.Join(project, "d", "b.txt")))
	require.Contains(t, git(t, d.bare(), "log", "-1", "--format=%B", "agent/alice"), "# the rest of the task\n\nPolis-Task: alice.1")

	r := d.ctl("run", "--wait", "--commit", "bob", ident+"echo c > c.txt")
	require.Contains(t, r.stdout, "1 commit, merged as ", "%s", r)
	// A task that failed is left as it is.
	require.Equal(t, 1, d.ctl("run", "--wait", "--commit", "bob", "echo x > x.txt; exit 1").code)
	require.Equal(t, 1, d.settled("bob").Uncommitted)
	require.Contains(t, d.must("agents", "commit", "bob", "-m", "by hand"), "1 file of agent bob committed as ")
	require.Contains(t, d.must("agents", "commit", "bob"), "nothing to commit")
	d.must("agents", "stop", "--all") // and so their leases end
	// Not during a conflict, which would be committed with its markers.
	writeFile(t, filepath.Join(project, "x.txt"), "theirs\n")
	git(t, project, "add", "x.txt")
	git(t, project, "commit", "-qm", "theirs")
	r = d.ctl("agents", "rebase", "bob")
	require.Contains(t, r.stderr, "in conflict", "%s", r)
	r = d.ctl("agents", "commit", "bob")
	require.Equal(t, 4, r.code, "%s", r)
	require.Contains(t, r.stderr, "in conflict")
}

// TestATaskBeginsWhereTheTargetIs: an agent without work of its own has what others have merged,
// even while they hold leases, and takes no lease itself.
func TestATaskBeginsWhereTheTargetIs(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.still]\nread = [\"**\"]\nwrite = [\"**\"]\non_start = \"keep\"\n"})
	project := d.up()
	d.worker("alice")
	d.worker("bob")
	d.worker("carol", "--role", "still")
	d.sh("bob", "cat README.md; ls") // the kernel has cached it
	merged := func(name, script string) {
		d.must("agents", "run", name, ident+script)
		got := d.settled(name)
		require.Equal(t, api.OutcomeMerged, got.Outcome, "%s: %+v", name, got)
	}
	merged("alice", "echo one > README.md; mkdir new; echo x > new/file; git add -A; git commit -qm one")
	merged("bob", "grep -q one README.md; grep -q x new/file; echo two > two.txt; git add -A; git commit -qm two")
	merged("alice", "grep -q two two.txt; git rm -q new/file; echo three >> README.md; git commit -qam three")
	merged("bob", "test ! -e new; grep -q three README.md; echo four > four.txt; git add -A; git commit -qm four")
	require.Equal(t, "one\nthree\n", readFile(filepath.Join(project, "README.md")))
	for _, l := range d.locks() {
		require.False(t, l.Holder == "bob" && l.Path == "README.md", "%+v", l)
	}
	require.Empty(t, d.sh("bob", "git status --porcelain"))

	d.must("agents", "run", "carol", "test ! -e two.txt; ! grep -q one README.md")
	require.Equal(t, "nothing to merge", d.settled("carol").Result)
	// Work of its own stays where it is.
	d.sh("bob", "echo own > own.txt")
	head := d.sh("bob", "git rev-parse HEAD")
	d.must("agents", "run", "bob", "true")
	require.Equal(t, "uncommitted: 1 file", d.settled("bob").Result)
	require.Equal(t, head, d.sh("bob", "git rev-parse HEAD"))
}

// TestExecStartsTheSandboxOfAStoppedAgent, and not its program.
func TestExecStartsTheSandboxOfAStoppedAgent(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.must("agents", "add", "alice", "--base", "custom", "--", "sh", "-c", "touch started; exec sleep 1000")
	d.must("agents", "stop", "alice")
	require.Equal(t, "here\n", d.must("agents", "exec", "alice", "--", "sh", "-c", "echo here; test ! -e started"))
	a, _ := d.agent("alice")
	require.Equal(t, api.StatusIdle, a.Status)
	r := d.ctl("agents", "attach", "alice")
	require.Equal(t, 125, r.code, "there is no program: %s", r)
}

// TestATaskBeginsWithTheTargetMerged into the agent's own commits, if on_start is "rebase". A merge with
// conflicts is undone, and changed files are left alone.
func TestATaskBeginsWithTheTargetMerged(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.joins]\nread = [\"**\"]\nwrite = [\"**\"]\non_start = \"rebase\"\n[locks]\nhold = \"close\"\n"}) // an unmerged change blocks nobody
	d.up()
	d.worker("alice")
	d.worker("carol", "--role", "joins", "--auto-merge=false")
	run := func(name, script string) {
		t.Helper()
		d.must("agents", "run", name, ident+script)
		got := d.settled(name)
		require.NotNil(t, got.ExitCode, "%+v", got)
		require.Zero(t, *got.ExitCode, "%s: %+v", script, got)
	}
	run("carol", "echo own > own.txt; git add -A; git commit -qm own")
	run("alice", "echo one > README.md; git commit -qam one")
	run("carol", "grep -q one README.md; grep -q own own.txt; git diff --quiet HEAD")
	require.NotEmpty(t, d.sh("carol", "git log --merges --format=%h"))

	run("carol", "echo mine > README.md; git commit -qam mine")
	run("alice", "echo two > README.md; git commit -qam two")
	run("carol", "grep -q mine README.md; git diff --quiet HEAD; test ! -e $(git rev-parse --git-path MERGE_HEAD)")

	run("carol", "git reset -q --hard HEAD~1; echo left > own.txt")
	run("alice", "echo three > three.txt; git add -A; git commit -qm three")
	run("carol", "test ! -e three.txt; grep -q left own.txt")
}
