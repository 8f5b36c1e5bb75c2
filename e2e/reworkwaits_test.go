package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// reworkOf waits until the rework of an agent's last failed merge has a task, and returns that.
func (d *daemon) reworkOf(agent string) string {
	d.t.Helper()
	var id string
	d.eventually("the rework of "+agent+" has a task", func() bool {
		for _, s := range d.signals() {
			if s.Agent == agent && s.Rework != nil && s.Rework.State == api.ReworkStarted {
				id = s.Rework.Task
			}
		}
		return id != ""
	})
	return id
}

// TestAReworkWaitsBehindALostTask, as other tasks do that no person gives then. One that a person begins does not.
func TestAReworkWaitsBehindALostTask(t *testing.T) {
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"1h\"\n[merge]\nauto_merge = false\ncheck = \"test ! -e broken.txt\"\nrework = \"same\"\n"})
	d.up()
	agents := []string{"alice"}
	for _, name := range agents {
		d.worker(name)
		d.sh(name, ident+"echo x > broken.txt; git add -A; git commit -qm broken")
	}
	lost := []string{d.longTask("alice")}
	d.crashAll(agents...)
	d.start()
	for _, id := range lost {
		d.ended(id, api.OutcomeLost)
	}
	d.refused(api.CodeCheckFailed, "merge", "alice")
	rework := d.taskRecord(d.reworkOf("alice"))
	require.Equal(t, api.TaskQueued, rework.State)
	require.Equal(t, api.WaitLost, rework.Waits.For)
	require.Equal(t, lost[0], rework.Waits.Task)
	d.must("tasks", "cancel", lost[0])
	d.eventually("the rework has been done", func() bool { return d.taskRecord(rework.ID).Final })
	require.Empty(t, d.taskRecord(lost[0]).Interrupted)
}

// TestAReworkThatAPersonBeginsPassesALostTask: the person has decided.
func TestAReworkThatAPersonBeginsPassesALostTask(t *testing.T) {
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"1h\"\n[merge]\nauto_merge = false\ncheck = \"test ! -e broken.txt\"\n"})
	d.up()
	d.worker("alice")
	d.sh("alice", ident+"echo x > broken.txt; git add -A; git commit -qm broken")
	lost := d.longTask("alice")
	d.crashAll("alice")
	d.start()
	d.ended(lost, api.OutcomeLost)
	d.refused(api.CodeCheckFailed, "merge", "alice")
	d.must("queue", "rework", "alice", "--same")
	rework := d.reworkOf("alice")
	d.eventually("a person's rework has begun", func() bool { return d.taskRecord(rework).Final })
	require.Equal(t, api.InterruptedPassed, d.taskRecord(lost).Interrupted)
}

// TestTheCommandOfACheckIsTheOneThatRan, whatever the configuration says when a person or an agent reads it.
func TestTheCommandOfACheckIsTheOneThatRan(t *testing.T) {
	const config = "[patrol]\ninterval = \"1h\"\n[merge]\nhooks = true\nrework = \"same\"\ncheck = \"test ! -e broken.txt\"\n"
	d := startDaemon(t, options{failpoints: true, config: config})
	repo := d.smallRepo()
	d.write("src/.git/hooks/pre-merge-commit", "#!/bin/sh\nif git diff --cached --name-only | grep secret >&2; then exit 1; fi\n")
	require.NoError(t, os.Chmod(repo+"/.git/hooks/pre-merge-commit", 0o755))
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	for _, name := range []string{"alice", "bob"} {
		d.worker(name, "--write", "**")
	}
	d.sh("alice", ident+"echo x > broken.txt; git add -A; git commit -qm broken")
	d.sh("bob", ident+"echo x > secret.txt; git add -A; git commit -qm secret")
	d.at("check:running", func() { d.refused(api.CodeCheckFailed, "merge", "alice") }, func() {
		file := d.path("polisd.toml")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "test ! -e broken.txt", "echo changed", 1)), 0o600))
		require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
		d.eventually("polisd reads it", func() bool { return strings.Contains(d.log(), "configuration was read again") })
	})
	checkOf := func(agent string) (l api.CheckLog) {
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "queue", "log", agent)), &l))
		return l
	}
	require.Equal(t, "test ! -e broken.txt", checkOf("alice").Command)
	prompt := d.taskRecord(d.reworkOf("alice")).Prompt
	require.Contains(t, prompt, "The check command:\n    test ! -e broken.txt\n")
	require.Contains(t, prompt, "The check printed nothing.\n")
	require.NotContains(t, prompt, "echo changed")

	// A hook refuses before the command.
	e := d.refused(api.CodeCheckFailed, "merge", "bob")
	require.Contains(t, e.Message, "the git hook pre-merge-commit of the project refuses the merge")
	require.Empty(t, checkOf("bob").Command)
	prompt = d.taskRecord(d.reworkOf("bob")).Prompt
	require.Contains(t, prompt, "failed: the git hook pre-merge-commit of the project refuses the merge.\nOnly git hooks of the project ran, and no check command.\n")
	require.Contains(t, prompt, "  | secret.txt\n")
}
