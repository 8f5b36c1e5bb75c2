package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// at has polisd wait at a step of do, and calls meanwhile then. It returns when do has ended.
func (d *daemon) at(step string, do, meanwhile func()) {
	d.t.Helper()
	d.write("failpoint", "wait "+step)
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	waiting := d.path("failpoint.waiting")
	d.eventually("polisd waits at "+step, func() bool {
		select {
		case <-done:
			d.t.Fatalf("polisd did not come by %s", step)
		default:
		}
		_, err := os.Stat(waiting)
		return err == nil
	})
	defer func() { <-done }()
	defer func() { require.NoError(d.t, os.Remove(waiting)) }()
	meanwhile()
}

// during runs a cycle of the patrol in which polisd waits at a step, and returns what it decided about
// an agent.
func (d *daemon) during(step, agent string, meanwhile func()) *api.Cleanup {
	d.t.Helper()
	var r result
	d.at(step, func() { r = d.ctl("--json", "patrol", "run", "--once") }, meanwhile)
	require.Zero(d.t, r.code, "%s", r)
	var rep api.PatrolReport
	decode(d.t, r.stdout, &rep)
	for _, c := range rep.Cleanups {
		if c.Agent == agent {
			return &c
		}
	}
	return nil
}

// shimDies kills the shim of an agent, and waits until polisd knows it.
func (d *daemon) shimDies(agent string) {
	d.t.Helper()
	require.NoError(d.t, syscall.Kill(d.shim(agent), syscall.SIGKILL))
	d.eventually(agent+" is in Error", func() bool { a, _ := d.agent(agent); return a.Status == api.StatusError })
}

// TestWhatChangesWhileThePatrolDecidesCounts: between detection and action an agent is started again,
// another one gets its name, its branch is merged, or a file appears in it.
func TestWhatChangesWhileThePatrolDecidesCounts(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: shortPatrol})
	project := d.up()
	over := func(name, script string, flags ...string) {
		d.temp(name, flags...)
		d.task(name, script)
		d.settled(name)
		d.eventually(name+" is over", func() bool { return d.cleanup(name, "--dry-run") != nil })
	}
	there := func(name string) bool { _, there := d.agent(name); return there }

	d.temp("reborn")
	d.shimDies("reborn")
	got := d.during("cleanup:measured", "reborn", func() { d.must("agents", "start", "--program", "reborn") })
	require.Equal(t, api.CleanupRemove, got.Action, "it was clean")
	require.False(t, got.Done)
	require.Contains(t, got.Skipped, "is not what it was")
	require.Equal(t, "alive\n", d.sh("reborn", "echo alive"))
	d.must("agents", "remove", "--force", "reborn")

	over("name", "true")
	got = d.during("cleanup:measured", "name", func() {
		d.must("agents", "remove", "--force", "name")
		d.temp("name")
		d.sh("name", "echo other > other.txt")
	})
	require.False(t, got.Done)
	require.Contains(t, got.Skipped, "is not what it was")
	require.Equal(t, "other\n", d.sh("name", "cat other.txt"))
	d.patrol()
	require.True(t, there("name"), "another agent's task is not its own")
	d.must("agents", "remove", "--force", "name")

	over("lands", commitOf("lands.txt", "lands"), "--auto-merge=false")
	got = d.during("cleanup:measured", "lands", func() { d.must("merge", "lands") })
	require.Equal(t, []any{api.CleanupUnpushed, api.CleanupEscalate, false}, []any{got.Status, got.Action, got.Done}, "it is judged by what was measured")
	require.Equal(t, "lands\n", readFile(filepath.Join(project, "lands.txt")))
	require.True(t, there("lands"))
	require.True(t, d.cleanup("lands").Done, "the next cycle finds it on the target")
	require.Empty(t, d.openCases())

	// The second measurement is made when nothing of the agent runs any more.
	over("writes", commitOf("writes.txt", "w"))
	late := d.path("ws", ".polis", "worktrees", "writes", "late.txt")
	got = d.during("cleanup:stopped", "writes", func() {
		require.NoError(t, os.WriteFile(late, []byte("late"), 0o666))
	})
	require.Equal(t, []any{api.CleanupUncommitted, api.CleanupKeep, false}, []any{got.Status, got.Action, got.Done}, "%+v", got)
	require.Contains(t, strings.Join(got.Evidence, "\n"), "it changed while its sandbox was being stopped")
	require.Equal(t, "late", readFile(late))

	// polisd dies after the decision: the next one decides again.
	over("again", "true")
	d.dieAt("cleanup:stopped", func() result { return d.ctl("patrol", "run", "--once") })
	d.eventually("it goes", func() bool { d.patrol(); return !there("again") })
	require.True(t, there("writes"))
}

// TestThePatrolActsOnNoOtherAgentOfTheName: another agent gets the name between the finding and the nudge,
// or between the stop and the new start. It gets no input and is not started.
func TestThePatrolActsOnNoOtherAgentOfTheName(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: shortPatrol +
		"[roles.n.patrol]\non_stall = \"nudge\"\nnudge = \"wake up\"\n[roles.r.patrol]\non_stall = \"restart\"\n"})
	d.up()
	add := func(name, role, script string) {
		d.must("agents", "add", name, "--base", "custom", "--write", "**", "--role", role, "--", "sh", "-c", script)
	}
	replaced := func(name, step string, by func()) {
		d.finding(name, "--dry-run")
		var r result
		d.at(step, func() { r = d.ctl("--json", "patrol", "run", "--once") }, func() {
			d.must("agents", "remove", "--force", name)
			by()
		})
		require.Zero(t, r.code, "%s", r)
		var rep api.PatrolReport
		decode(t, r.stdout, &rep)
		require.Len(t, rep.Findings, 1)
		f := rep.Findings[0]
		require.Equal(t, []any{name, api.PatrolStalled, false}, []any{f.Agent, f.Class, f.Done}, "%+v", f)
		require.Contains(t, f.Skipped, "is not what it was")
	}
	status := func(name string) api.Status { a, _ := d.agent(name); return a.Status }

	const reads = `read line; echo "$line" > heard.txt; exec sleep 1000`
	add("nudged", "n", reads)
	d.must("agents", "start", "--program", "nudged")
	replaced("nudged", "patrol:decided", func() {
		add("nudged", "n", reads)
		d.must("agents", "start", "--program", "nudged")
	})
	d.must("send", "nudged", "from a person")
	heard := d.path("ws", ".polis", "worktrees", "nudged", "heard.txt")
	d.eventually("it reads a line", func() bool { text, err := os.ReadFile(heard); return err == nil && len(text) > 0 })
	require.Equal(t, "from a person\n", readFile(heard))
	d.must("agents", "remove", "--force", "nudged")

	add("program", "r", "exec sleep 1000")
	d.must("agents", "start", "--program", "program")
	replaced("program", "patrol:stopped", func() { add("program", "r", "exec sleep 1000") })
	require.Equal(t, api.StatusIdle, status("program"))
	d.must("agents", "remove", "--force", "program")

	add("task", "r", "exec sleep 1000")
	d.must("agents", "run", "task", "work")
	replaced("task", "patrol:stopped", func() {
		add("task", "r", "true")
		d.must("agents", "run", "task", "other work")
		d.settled("task")
	})
	require.Len(t, d.tasks("task"), 2, "that of the removed agent is not given to this one")
	require.Equal(t, api.StatusIdle, status("task"))
}

// TestAShimThatDiesWhileItsAgentIsMade: the seed's class 1 in its state spawning. Nothing of the agent
// is left, or it is in Error, and its name can be used.
func TestAShimThatDiesWhileItsAgentIsMade(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: shortPatrol})
	d.up()
	var r result
	d.at("up:shim", func() { r = d.ctl("agents", "add", "alice", "--base", "custom", "--ephemeral") }, func() {
		a, _ := d.agent("alice")
		require.Equal(t, api.StatusCreating, a.Status)
		require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGKILL))
		rep := d.patrol()
		require.Empty(t, rep.Cleanups, "what is being made is not judged")
		require.Empty(t, rep.Findings)
	})
	if r.code == 0 {
		d.eventually("its death is noticed", func() bool {
			a, there := d.agent("alice")
			return !there || a.Status == api.StatusError
		})
		d.eventually("it had no work: it goes", func() bool { d.patrol(); _, there := d.agent("alice"); return !there })
	}
	d.nothingOf("alice", "up:shim")
	d.add("alice")
	require.Equal(t, "alive\n", d.sh("alice", "echo alive"))
}

// TestProgramsOfClosedTasksAreEnded: the task was done and merged, merged and reverted, or cancelled,
// and its program did not notice; a discarded agent has none left. A program that died is no finding.
func TestProgramsOfClosedTasksAreEnded(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: shortPatrol})
	project := d.up()
	start := func(name, script string, flags ...string) {
		d.worker(name, append(flags, "--write", "**")...)
		d.task(name, script+"; exec sleep 1000")
	}
	status := func(name string) api.Status { a, _ := d.agent(name); return a.Status }
	merged := func(name string) {
		d.eventually(name+" is merged", func() bool { return d.taskOf(name+".1").Outcome == api.OutcomeMerged })
	}
	start("merged", commitOf("merged.txt", "m")+"; polisctl done")
	start("reverted", commitOf("reverted.txt", "r")+"; polisctl done")
	start("discarded", commitOf("discarded.txt", "d")+"; polisctl done", "--auto-merge=false")
	start("cancelled", commitOf("cancelled.txt", "c")+"; echo ready > ready.txt")
	merged("merged")
	merged("reverted")
	d.must("revert", "reverted")
	d.eventually("its agent reported its end", func() bool { return d.taskOf("discarded.1").State == api.TaskEnded })
	discarded := d.inside("discarded")
	d.must("discard", "discarded", "--yes")
	for _, pid := range discarded {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
	files := d.path("ws", ".polis", "worktrees")
	d.eventually("it is at work", func() bool { _, err := os.Stat(filepath.Join(files, "cancelled", "ready.txt")); return err == nil })
	// polisd dies between the record of the end and the end of the program.
	d.dieAt("task:measured", func() result { return d.ctl("tasks", "cancel", "cancelled.1") })
	require.Equal(t, api.StatusRunning, status("cancelled"))

	classes := map[string]api.PatrolClass{}
	d.eventually("all are found, and ended", func() bool {
		for _, f := range d.patrol().Findings {
			if f.Done {
				classes[f.Agent] = f.Class
			}
		}
		return len(classes) == 3
	})
	require.Equal(t, map[string]api.PatrolClass{"merged": api.PatrolStuckInDone, "reverted": api.PatrolStuckInDone, "cancelled": api.PatrolTaskClosed}, classes)
	for name := range classes {
		d.eventually(name+" is idle", func() bool { return status(name) == api.StatusIdle })
		require.Equal(t, name[:1]+"\n", d.sh(name, "git show HEAD:"+name+".txt"), "its work stays")
	}
	require.FileExists(t, filepath.Join(project, "merged.txt"))
	require.NoFileExists(t, filepath.Join(project, "reverted.txt"))

	// agent-dead: the shim lives, the program is killed.
	start("dies", "echo x > dies.txt", "--ephemeral")
	d.eventually("it is at work", func() bool {
		text, err := os.ReadFile(filepath.Join(files, "dies", "dies.txt"))
		return err == nil && string(text) == "x\n"
	})
	require.NoError(t, syscall.Kill(d.shimStatus("dies").MainPID, syscall.SIGKILL))
	d.eventually("its end is noticed", func() bool { return status("dies") == api.StatusIdle })
	rep := d.patrol()
	require.Empty(t, rep.Findings)
	require.Len(t, rep.Cleanups, 1)
	require.Equal(t, []any{"dies", api.CleanupUncommitted}, []any{rep.Cleanups[0].Agent, rep.Cleanups[0].Status})
	_, err := os.Stat(filepath.Join(files, "dies", "dies.txt"))
	require.False(t, errors.Is(err, fs.ErrNotExist), "what it had not saved stays")
}
