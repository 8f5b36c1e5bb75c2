package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// signals returns the requests to merge, oldest first.
func (d *daemon) signals() []api.MergeSignal {
	d.t.Helper()
	var out struct{ Queues []api.Queue }
	decode(d.t, d.must("--json", "queue"), &out)
	return out.Queues[0].Signals
}

// published counts the events of a type for a request.
func (d *daemon) published(typ, id string) (n int) {
	d.t.Helper()
	var out struct{ Events []api.Event }
	decode(d.t, d.must("--json", "events"), &out)
	for _, e := range out.Events {
		if s, ok := e.Data["signal"].(map[string]any); ok && e.Type == typ && s["id"] == id {
			n++
		}
	}
	return n
}

// TestSignalsOfAMerge: a merge is done, ready, merged and verified, and the ephemeral agent is
// removed. Or it fails, is kept, and is reworked by a new agent, whose merge resolves the first
// one.
func TestSignalsOfAMerge(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[locks]\nhold = \"close\"\nwait = \"300ms\"\ngrace = \"2s\"\n"})
	project := d.up()
	d.temp("first")
	d.temp("second", "--auto-merge=false")
	conflicting := func(text string) string { return "echo " + text + " > main.txt; git commit -qam " + text }
	d.task("first", conflicting("first")+"; polisctl done --cleanup-status clean")
	d.task("second", conflicting("second"))
	require.Equal(t, api.OutcomeMerged, d.settled("first").Outcome)
	d.settled("second")
	s := d.signals()[0]
	require.Equal(t, "first.1", s.ID)
	require.Equal(t, api.MergeSignalMerged, s.State)
	require.True(t, s.Verified)
	require.NotEmpty(t, s.Head)
	require.Equal(t, 1, d.published("merge:ready", "first.1"))
	d.eventually("its result is published", func() bool { return d.published("merge:merged", "first.1") == 1 })
	d.eventually("it is idle", func() bool { a, _ := d.agent("first"); return a.Status == api.StatusIdle })
	d.eventually("it goes", func() bool { d.patrol(); _, there := d.agent("first"); return !there })

	d.refused(api.CodeMergeConflict, "merge", "second")
	_, there := d.agent("second")
	require.True(t, there)
	all := d.signals()
	failed := all[len(all)-1]
	require.Equal(t, api.MergeSignalFailed, failed.State)
	require.Equal(t, []string{"main.txt"}, failed.Paths)
	require.Equal(t, api.ReworkOffered, failed.Rework.State)
	require.Equal(t, 1, d.published("merge:failed", failed.ID))
	require.Contains(t, d.must("queue"), "polisctl queue rework second gives a new agent the task")
	require.Contains(t, failed.Rework.Prompt, `"main.txt"`)

	// Its task is a text for a model. Its program here takes the text for a script, and fails.
	d.must("queue", "rework", "second")
	all = d.signals()
	r := all[len(all)-1].Rework
	require.Equal(t, api.ReworkStarted, r.State)
	require.Equal(t, "second-rework", r.Agent)
	require.Equal(t, failed.Rework.Prompt, d.taskOf(r.Task).Prompt)
	require.Equal(t, 1, d.published("merge:rework", failed.ID))
	e := d.refused(api.CodeBadState, "queue", "rework", "second")
	require.Equal(t, "polisctl tasks show "+r.Task, e.Hint)
	d.must("tasks", "show", r.Task)
	rework, _ := d.agent("second-rework")
	require.True(t, rework.Ephemeral)
	d.eventually("its program has ended", func() bool { a, _ := d.agent("second-rework"); return a.Status == api.StatusIdle })
	d.must("agents", "set", "second-rework", "--auto-merge=true")
	d.task("second-rework", "git merge -q agent/second >/dev/null || true; echo both > main.txt; git commit -qam resolved")
	require.Equal(t, api.OutcomeMerged, d.settled("second-rework").Outcome)
	require.Equal(t, "both\n", readFile(filepath.Join(project, "main.txt")))
	d.eventually("the work of both is home: both go", func() bool {
		d.patrol()
		_, one := d.agent("second")
		_, two := d.agent("second-rework")
		return !one && !two
	})
}

// TestReworkStartsAutomatically on the same agent, once, also if polisd is killed while it begins it.
func TestReworkStartsAutomatically(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: "[patrol]\ninterval = \"1h\"\n[merge]\ncheck = \"test ! -e broken.txt\"\nrework = \"same\"\n"})
	d.up()
	d.worker("alice", "--write", "**")
	for n, step := range []string{"", "signal:saved"} {
		run := func() result {
			return d.ctl("agents", "run", "alice", ident+"echo x >> broken.txt; git add -A; git commit -qm broken")
		}
		if step == "signal:saved" {
			d.dieAt(step, run)
		} else {
			require.Zero(t, run().code)
		}
		id := d.tasks("alice")[2*n].ID
		var s api.MergeSignal
		d.eventually("its rework has begun, after "+step, func() bool {
			for _, s = range d.signals() {
				if s.ID == id && s.Rework != nil && s.Rework.State == api.ReworkStarted {
					return true
				}
			}
			return false
		})
		require.GreaterOrEqual(t, d.published("merge:ready", id)+d.published("merge:failed", id), 1)
		require.Equal(t, "alice", s.Rework.Agent)
		tasks := d.tasks("alice")
		count := 0
		for _, task := range tasks {
			if strings.Contains(task.Prompt, "Request: "+id+"\n") {
				count++
			}
		}
		require.Equal(t, 1, count, "%+v", tasks)
		d.eventually("the rework has ended", func() bool {
			all := d.tasks("alice")
			return all[len(all)-1].Final && all[len(all)-1].ID == s.Rework.Task
		})
		d.eventually("it is idle", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })
		d.sh("alice", "git reset -q --hard main")
	}
}

func TestReworkByANewAgentStartsAutomatically(t *testing.T) {
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"1h\"\n[merge]\ncheck = \"test ! -e broken.txt\"\nrework = \"new\"\n"})
	d.up()
	d.worker("alice", "--write", "**")
	d.must("agents", "run", "alice", ident+"echo x > broken.txt; git add -A; git commit -qm broken")
	id := d.tasks("alice")[0].ID
	var s api.MergeSignal
	d.eventually("its rework has begun", func() bool {
		for _, s = range d.signals() {
			if s.ID == id && s.Rework != nil && s.Rework.State == api.ReworkStarted {
				return true
			}
		}
		return false
	})
	require.Equal(t, "alice-rework", s.Rework.Agent)
	require.Contains(t, d.tasks("alice-rework")[0].Prompt, "Request: "+id+"\n")
	_, ok := d.agent("alice")
	require.True(t, ok, "the agent whose merge failed stays")
	require.Equal(t, "x\n", d.sh("alice", "cat broken.txt"))
	require.Len(t, d.tasks("alice"), 1)
}
