package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// temp adds an ephemeral agent whose tasks are shell scripts.
func (d *daemon) temp(name string, flags ...string) {
	d.t.Helper()
	d.worker(name, append([]string{"--ephemeral", "--write", "**"}, flags...)...)
}

// cleanup runs a cycle of the patrol and returns its decision about an agent, nil if there is none.
func (d *daemon) cleanup(agent string, flags ...string) *api.Cleanup {
	d.t.Helper()
	for _, c := range d.patrol(flags...).Cleanups {
		if c.Agent == agent {
			return &c
		}
	}
	return nil
}

// TestEveryCleanupStatus with real repositories: an ephemeral agent is removed if all of its work
// is stored elsewhere. Otherwise it stays complete.
func TestEveryCleanupStatus(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol})
	project := d.up()
	fork := d.path("fork.git")
	git(t, d.dir, "init", "-q", "--bare", "-b", "trunk", fork)
	git(t, project, "remote", "add", "fork", fork)
	git(t, project, "push", "-q", "fork", "main:trunk")
	git(t, project, "remote", "add", "gone", d.path("no-such.git"))
	d.giveAway(fork)
	d.giveAway(project)

	for _, c := range []struct {
		name, script string
		flags        []string
		status       api.CleanupStatus
		measured     api.CleanupStatus
		evidence     string
	}{
		{"merged", commitOf("m.txt", "m") + "; polisctl done --cleanup-status clean", nil, api.CleanupClean, api.CleanupClean, "everything is in main"},
		{"nothing", "true", nil, api.CleanupClean, api.CleanupClean, "everything is in main"},
		{"dirty", "echo x > left.txt; polisctl done --cleanup-status clean", nil, api.CleanupUncommitted, api.CleanupUncommitted, "1 file in no commit"},
		{"stash", "echo x >> README.md; git stash -q", nil, api.CleanupStash, api.CleanupStash, "it has a stash"},
		{"unpushed", commitOf("u.txt", "u"), []string{"--auto-merge=false"}, api.CleanupUnpushed, api.CleanupUnpushed, "1 commit not in main"},
		{"reports", "polisctl done --cleanup-status has_unpushed", nil, api.CleanupUnpushed, api.CleanupClean, "the agent reported has_unpushed"},
		{"pushed", commitOf("p.txt", "p"), []string{"--auto-merge=false"}, api.CleanupClean, api.CleanupClean, "default branch of remote fork"},
	} {
		d.temp(c.name, c.flags...)
		d.task(c.name, c.script)
		d.settled(c.name)
		d.eventually(c.name+" is idle", func() bool { a, _ := d.agent(c.name); return a.Status == api.StatusIdle })
		if c.name == "pushed" {
			d.eventually("it is over", func() bool { return d.cleanup(c.name, "--dry-run") != nil })
			require.Equal(t, api.CleanupUnpushed, d.cleanup(c.name, "--dry-run").Status, "not there yet")
			bare := d.path("ws", ".polis", "bare-repo.git")
			require.NoError(t, filepath.WalkDir(fork, func(p string, _ os.DirEntry, err error) error { return errors.Join(err, os.Lchown(p, 0, 0)) })) // git refuses repositories of other users
			git(t, bare, "push", "-q", fork, "agent/pushed:trunk")
			d.giveAway(fork)
		}
		var dry *api.Cleanup
		d.eventually(c.name+" is over", func() bool { dry = d.cleanup(c.name, "--dry-run"); return dry != nil })
		require.Equal(t, "a dry run", dry.Skipped)
		_, there := d.agent(c.name)
		require.True(t, there, "a dry run removes nothing")

		got := d.cleanup(c.name)
		require.Equal(t, c.status, got.Status, "%+v", got)
		require.Equal(t, c.measured, got.Measured, "%+v", got)
		require.Contains(t, strings.Join(got.Evidence, "\n"), c.evidence)
		_, there = d.agent(c.name)
		require.Equal(t, c.status == api.CleanupClean, !there, "%+v", got)
		require.Equal(t, !there, got.Done)
		require.True(t, d.taskOf(c.name+".1").Final, "its result stays readable")
		switch c.name {
		case "unpushed":
			require.Equal(t, api.CleanupEscalate, got.Action)
			require.Contains(t, strings.Join(got.Evidence, "\n"), "remote gone did not answer")
		case "pushed":
			require.NotEmpty(t, got.Trash, "the target does not have it")
			d.must("restore", "pushed", "--as", "again")
			require.Equal(t, "p\n", readFile(d.path("ws", ".polis", "worktrees", "again", "p.txt")))
			d.must("agents", "remove", "--force", "again")
		}
	}
	require.Equal(t, "x\n", readFile(d.path("ws", ".polis", "worktrees", "dirty", "left.txt")))
	require.Contains(t, d.sh("stash", "git stash list"), "stash@{0}")
	require.Equal(t, "u\n", d.sh("unpushed", "cat u.txt"))
	events := d.must("--json", "events")
	require.Equal(t, 1, strings.Count(events, `agent dirty: its task dirty.1 is over`), "published once")
	d.patrol()
	require.Equal(t, 1, strings.Count(d.must("--json", "events"), `agent dirty: its task dirty.1 is over`))

	var open struct{ Cases []api.Case }
	decode(t, d.must("--json", "patrol", "cases"), &open)
	about := map[string]api.CaseState{}
	for _, c := range open.Cases {
		about[c.Agent] = c.State
	}
	require.Equal(t, map[string]api.CaseState{"unpushed": api.CasePending, "reports": api.CasePending}, about)

	// An agent that was kept is removed when its work has been merged.
	d.must("merge", "unpushed")
	require.True(t, d.cleanup("unpushed").Done)
	_, there := d.agent("unpushed")
	require.False(t, there)
	require.NotContains(t, d.must("--json", "patrol", "cases"), `"unpushed"`, "the facts resolved it")

	// Work that the parent of a worker has is stored elsewhere.
	d.worker("parent")
	r := d.exec("parent", "sh", "-c", "polisctl delegate part/w '"+commitOf("w.txt", "w")+"' --wait")
	require.Zero(t, r.code, "%s", r)
	d.eventually("the worker is over", func() bool { return d.cleanup("part-w", "--dry-run") != nil })
	require.Equal(t, api.CleanupUnpushed, d.cleanup("part-w", "--dry-run").Status, "only the worker has it")
	d.sh("parent", ident+"git merge -q part/w")
	got := d.cleanup("part-w")
	require.Equal(t, api.CleanupClean, got.Status, "%+v", got)
	require.True(t, got.Done, "%+v", got)
	require.Contains(t, got.Evidence, "1 commit not in main, all of them in the branch of its parent parent")
}

// taskOf returns the record of a task.
func (d *daemon) taskOf(id string) (out api.Task) {
	d.t.Helper()
	decode(d.t, d.must("--json", "tasks", "show", id), &out)
	return out
}

// TestAgentsWhoseWorkIsNotOverStay: an agent stays if it is in use, may still get a result, had no work, or
// is not ephemeral.
func TestAgentsWhoseWorkIsNotOverStay(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[merge]\ncheck = \"while ! test -e /tmp/never; do sleep 0.1; done\"\n[roles.keeps]\nread = [\"**\"]\nwrite = [\"**\"]\nleftovers = \"keep\"\n"})
	d.up()
	idle := func(name string) {
		d.eventually(name+" is idle", func() bool { a, _ := d.agent(name); return a.Status == api.StatusIdle })
	}
	d.temp("unused")
	d.worker("lasting")
	d.task("lasting", "true")
	d.settled("lasting")
	d.temp("working")
	d.task("working", "sleep 1000")
	d.temp("merging")
	d.task("merging", commitOf("x.txt", "x"))
	d.must("agents", "add", "server", "--base", "custom", "--ephemeral", "--auto-merge=false", "--role", "keeps", "--", "sh", "-ec")
	d.task("server", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & sleep 0.2")
	d.settled("server")
	d.temp("visited", "--auto-merge=false")
	d.task("visited", "true")
	d.settled("visited")
	visit := d.follow("agents", "exec", "visited", "--", "sh", "-c", "touch /tmp/in; sleep 1000")
	d.eventually("a person is in it", func() bool { return d.exec("visited", "test", "-e", "/tmp/in").code == 0 })
	for _, name := range []string{"merging", "server", "visited"} {
		idle(name)
	}
	rep := d.patrol()
	require.Empty(t, rep.Cleanups)
	for _, name := range []string{"unused", "lasting", "working", "merging", "server", "visited"} {
		_, there := d.agent(name)
		require.True(t, there, name)
	}
	// The person leaves, and the leftovers are ended: now their work is over.
	require.NoError(t, visit.cmd.Process.Kill())
	d.must("agents", "leftovers", "--end", "server")
	for _, name := range []string{"visited", "server"} {
		d.eventually(name+" goes", func() bool { d.patrol(); _, there := d.agent(name); return !there })
	}
	d.must("queue", "remove", "merging")
	require.Equal(t, api.CleanupUnpushed, d.cleanup("merging").Status)
}

// TestADeadSessionIsRemovedIfItIsEphemeralAndClean: class 1 of the seed. Any other dead session stays.
func TestADeadSessionIsRemovedIfItIsEphemeralAndClean(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol})
	d.up()
	die := func(name string) {
		require.NoError(t, syscall.Kill(d.shim(name), syscall.SIGKILL))
		d.eventually(name+" is in Error", func() bool { a, _ := d.agent(name); return a.Status == api.StatusError })
	}
	d.temp("clean")
	d.temp("dirty")
	d.temp("reborn")
	d.worker("lasting", "--write", "**")
	d.task("dirty", "echo unsaved > unsaved.txt; sleep 1000")
	d.eventually("it has written", func() bool { return readFile(d.path("ws", ".polis", "worktrees", "dirty", "unsaved.txt")) != "" })
	for _, name := range []string{"clean", "dirty", "reborn", "lasting"} {
		die(name)
	}
	dry := d.cleanup("reborn", "--dry-run")
	require.Equal(t, api.CleanupRemove, dry.Action)
	d.must("agents", "start", "--program", "reborn") // between detection and action
	rep := d.patrol()
	require.Len(t, rep.Cleanups, 2, "%+v", rep.Cleanups)
	_, there := d.agent("clean")
	require.False(t, there)
	for _, name := range []string{"dirty", "reborn", "lasting"} {
		_, there := d.agent(name)
		require.True(t, there, name)
	}
	d.must("agents", "start", "--program", "dirty")
	b, err := os.ReadFile(filepath.Join(d.path("ws", ".polis", "worktrees", "dirty"), "unsaved.txt"))
	require.NoError(t, err)
	require.Equal(t, "unsaved\n", string(b))
}

// TestEphemeralAgentsAreRemovedAutomatically as soon as their branch is merged, before the next cycle.
func TestEphemeralAgentsAreRemovedAutomatically(t *testing.T) {
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"1h\"\n"})
	project := d.up()
	d.temp("alice")
	d.task("alice", commitOf("a.txt", "a"))
	d.eventually("it is merged and gone", func() bool { _, there := d.agent("alice"); return !there })
	require.Equal(t, "a\n", readFile(filepath.Join(project, "a.txt")))
	require.Equal(t, api.OutcomeMerged, d.taskOf("alice.1").Outcome)
	// Another agent of the same name is judged by its own work.
	d.temp("alice")
	d.patrol()
	_, there := d.agent("alice")
	require.True(t, there, "it has had no task yet")
}
