package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestRunAddsFollowsAndEndsAsTheTask: one verb from nothing to a merged branch.
func TestRunAddsFollowsAndEndsAsTheTask(t *testing.T) {
	d := startDaemon(t, options{})
	writeType(d, "scribe", "run = [\"sh\", \"-ec\", \"{prompt}\"]\n")
	project := d.up()
	r := d.ctl("run", "--wait", "scribe", ident+"echo quiet; echo one > one.txt; git add -A; git commit -qm one")
	require.Zero(t, r.code, "%s", r)
	require.Regexp(t, `^scribe\.1 ended well in [0-9]+s: 1 commit, merged as [0-9a-f]{7}\n$`, r.stdout)
	require.Equal(t, "one\n", readFile(filepath.Join(project, "one.txt")))
	_, there := d.agent("scribe")
	require.True(t, there)

	r = d.ctl("run", "-f", "--base", "scribe", "echo loud; exit 7")
	require.Equal(t, 7, r.code, "%s", r)
	require.Regexp(t, `(?s)loud\n.*scribe\.2 ended with exit code 7 after [0-9]+s: 0 commits, failed \(exit 7\)\n$`, r.stdout)
	require.NotContains(t, r.stdout, "quiet", "only its own output")

	r = d.ctl("run", "--wait", "--base", "scribe", "--name", "second", "polisctl done --failed no")
	require.Equal(t, 1, r.code, "%s", r)
	require.Contains(t, r.stdout, "second.1 reported a failure after")

	writeType(d, "chooser", "run = [\"sh\", \"-c\", \"echo args: $*\", \"sh\", \"--\", \"{prompt}\"]\nmodel = [\"-m\", \"{model}\"]\n")
	r = d.ctl("run", "-f", "--model", "big-1", "chooser", "the words")
	require.Contains(t, r.stdout, "args: -m big-1 -- the words\n", "%s", r)
	r = d.ctl("run", "--continue", "chooser", "more")
	require.Equal(t, 2, r.code, "%s", r)
	require.Contains(t, r.stderr, "does not say how")

	writeFile(t, d.path("task.md"), "echo from a file; exit 3\n")
	require.Equal(t, 3, d.ctl("run", "--wait", "scribe", "--file", d.path("task.md")).code)
	require.Equal(t, 4, d.ctl("run", "--base", "custom", "--name", "scribe", "x").code, "of another type")
	require.Equal(t, 3, d.ctl("run", "nobody", "x").code)
	require.Equal(t, 2, d.ctl("run", "scribe").code)
	require.Equal(t, 2, d.ctl("run", "--wait", "--detach", "scribe", "x").code)
	require.Equal(t, 2, d.ctl("run", "scribe", "-F", d.path("task.md"), "words").code)
}

// TestTasksOfRunWaitForTheirTurn: in their order, also for a polisctl that follows
// one, and across a crash of polisd.
func TestTasksOfRunWaitForTheirTurn(t *testing.T) {
	d := startDaemon(t, options{})
	writeType(d, "scribe", "run = [\"sh\", \"-ec\", \"{prompt}\"]\n")
	d.up()
	d.must("run", "scribe", "while ! test -e /tmp/go; do sleep 0.05; done; echo first")
	require.Contains(t, d.must("run", "scribe", "echo second; exit 2"), "task scribe.2 waits: scribe works on scribe.1")
	f := d.follow("run", "-f", "scribe", "echo third; while ! test -e /tmp/end; do sleep 0.05; done; exit 3")
	d.eventually("three tasks", func() bool { a, _ := d.agent("scribe"); return a.Task != nil && a.Task.Queued == 2 })
	_ = d.signal(syscall.SIGKILL)
	d.start()
	d.must("agents", "exec", "scribe", "--", "touch", "/tmp/go")
	d.eventually("the third has its turn", func() bool { a, _ := d.agent("scribe"); return a.Task.ID == "scribe.3" })
	// A follower ends at a signal. The task continues.
	d.eventually("its output is shown", func() bool { return len(f.text()) > 0 })
	require.NoError(t, f.cmd.Process.Signal(syscall.SIGINT))
	err := <-f.done
	f.done <- err
	require.Equal(t, 130, f.cmd.ProcessState.ExitCode())
	require.Contains(t, f.text(), "task scribe.3 continues")
	d.must("agents", "exec", "scribe", "--", "touch", "/tmp/end")
	d.eventually("all have ended", func() bool { return d.settled("scribe").ID == "scribe.3" })
	var out struct{ Tasks []api.Task }
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "tasks", "scribe")), &out))
	for i, want := range []string{"nothing to merge", "failed (exit 2)", "failed (exit 3)"} {
		require.Equal(t, want, out.Tasks[i].Result)
	}
}

// writeType makes a base type of the administrator's.
func writeType(d *daemon, name, text string) {
	d.t.Helper()
	require.NoError(d.t, os.MkdirAll(d.path("agents.d"), 0o755))
	d.write(filepath.Join("agents.d", name+".toml"), text)
}
