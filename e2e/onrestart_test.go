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

// crashAll kills polisd and the shims of agents, as a machine that goes down does.
func (d *daemon) crashAll(agents ...string) {
	d.t.Helper()
	var shims []int
	for _, a := range agents {
		shims = append(shims, d.shim(a))
	}
	require.Error(d.t, d.signal(syscall.SIGKILL))
	for _, pid := range shims {
		require.NoError(d.t, syscall.Kill(pid, syscall.SIGKILL))
	}
	d.eventually("the shims have ended", func() bool { return d.living() == 0 })
}

// dieAtStart starts a polisd that dies at a step of its start, and then another one.
func (d *daemon) dieAtStart(step string) {
	d.t.Helper()
	d.write("failpoint", step)
	d.launch()
	select {
	case err := <-d.done:
		d.done <- err
	case <-time.After(patience):
		d.t.Fatalf("polisd did not come by %s", step)
	}
	d.start()
}

// longTask gives an agent a task that notes in $HOME/runs that it runs, and ends when $HOME/go is there.
func (d *daemon) longTask(agent string) string {
	d.t.Helper()
	before := len(d.runs(agent))
	var t api.Task
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "run", "-d", agent, "echo long >> $HOME/runs; while ! test -e $HOME/go; do sleep 0.05; done")), &t))
	d.eventually("the task runs", func() bool { return len(d.runs(agent)) > before })
	return t.ID
}

// follows queues a short task behind another one.
func (d *daemon) follows(agent, word string) string {
	d.t.Helper()
	var t api.Task
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "run", "-d", agent, "echo "+word+" >> $HOME/runs")), &t))
	require.Equal(d.t, api.TaskQueued, t.State)
	return t.ID
}

// runs are the lines that an agent's tasks have written.
func (d *daemon) runs(agent string) []string {
	d.t.Helper()
	b, err := os.ReadFile(d.home(agent, "runs"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

func (d *daemon) goOn(agent string) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(d.home(agent, "go"), nil, 0o644))
}

func (d *daemon) ended(id string, outcome api.TaskOutcome) api.Task {
	d.t.Helper()
	var t api.Task
	d.eventually("task "+id+" is "+string(outcome), func() bool { t = d.taskRecord(id); return t.Outcome == outcome })
	return t
}

// taskCases are the open cases of lost tasks.
func (d *daemon) taskCases() (out []api.Case) {
	d.t.Helper()
	var list struct{ Cases []api.Case }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "patrol", "cases")), &list))
	for _, c := range list.Cases {
		if c.Kind == "task" {
			out = append(out, c)
		}
	}
	return out
}

// TestALostTaskIsKeptAndItsFollowersWait: without a setting, tasks that a crash of the machine ended are lost. What was
// queued behind one does not begin before a person retries or dismisses it.
func TestALostTaskIsKeptAndItsFollowersWait(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	for _, name := range []string{"alice", "bob", "carol"} {
		d.worker(name)
	}
	one, other, third := d.longTask("alice"), d.longTask("bob"), d.longTask("carol")
	next, behind := d.follows("alice", "next"), d.follows("bob", "behind")
	d.crashAll("alice", "bob", "carol")
	d.start()
	for _, id := range []string{one, other, third} {
		require.Equal(t, api.InterruptedKept, d.ended(id, api.OutcomeLost).Interrupted)
	}
	waits := d.taskRecord(next)
	require.Equal(t, api.TaskQueued, waits.State)
	require.Equal(t, api.WaitLost, waits.Waits.For)
	require.Equal(t, one, waits.Waits.Task)
	list := d.must("tasks")
	require.Contains(t, list, next+" waits: task "+one+" was lost")
	require.Contains(t, list, "polisctl tasks retry "+one+" does it again, polisctl tasks cancel "+one+" dismisses it")
	require.Contains(t, list, "3 tasks were lost: polisctl tasks retry --lost")
	require.Contains(t, d.must("agents", "list"), "alice: 1 task waits: task "+one+" was lost")
	require.Contains(t, d.must("tasks", "show", next), "was lost")

	// Another task of a person waits as well; a second restart changes nothing.
	require.Contains(t, d.must("run", "-d", "alice", "echo last >> $HOME/runs"), "waits: task "+one+" was lost")
	d.crashAll("alice", "bob", "carol")
	d.start()
	require.Equal(t, api.InterruptedKept, d.taskRecord(one).Interrupted)
	require.Equal(t, []string{"long"}, d.runs("alice"))

	d.goOn("alice")
	require.Contains(t, d.must("tasks", "retry", "--lost", "alice"), "task "+one+" is retried as ")
	d.eventually("the retry, and then the others in their order", func() bool { return len(d.runs("alice")) == 4 })
	require.Equal(t, []string{"long", "long", "next", "last"}, d.runs("alice"))
	require.Empty(t, d.taskRecord(one).Interrupted)

	require.Contains(t, d.must("tasks", "cancel", other), "lost")
	d.ended(behind, api.OutcomeNothing)
	require.Equal(t, []string{"long", "behind"}, d.runs("bob"))
	require.Equal(t, 4, d.ctl("tasks", "cancel", other).code, "it is dismissed")

	// A failure is reported, and the others are retried.
	r := d.ctl("tasks", "retry", "--lost", "nobody", "carol", "noone")
	require.Equal(t, 3, r.code, "%s", r)
	require.Contains(t, r.stderr, "nobody")
	require.Contains(t, r.stderr, "noone")
	require.Contains(t, r.stdout, "task "+third+" is retried as ")
	require.Equal(t, "no task was lost\n", d.must("tasks", "retry", "--lost"))
	d.goOn("carol")
}

// TestAnotherTaskBeginsAfterALostOne if a person gives it and none waits: the lost one holds up nothing then.
func TestAnotherTaskBeginsAfterALostOne(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice")
	one := d.longTask("alice")
	d.crashAll("alice")
	d.start()
	d.ended(one, api.OutcomeLost)
	two := d.longTask("alice")
	next := d.follows("alice", "next")
	require.Equal(t, api.WaitTask, d.taskRecord(next).Waits.For)
	require.Equal(t, two, d.taskRecord(next).Waits.Task)
	d.goOn("alice")
	d.ended(next, api.OutcomeNothing)
	require.Equal(t, api.InterruptedPassed, d.taskRecord(one).Interrupted)
	require.Contains(t, d.must("tasks", "retry", "--lost"), "task "+one+" is retried as alice.4")
	d.ended("alice.4", api.OutcomeNothing)
}

// TestALostTaskIsRetriedOnce with on_restart = "retry", before what waits behind it; a task that is interrupted twice is kept.
func TestALostTaskIsRetriedOnce(t *testing.T) {
	d := startDaemon(t, options{config: "[tasks]\non_restart = \"retry\"\n"})
	d.up()
	d.worker("alice")
	d.worker("bob")
	one, other := d.longTask("alice"), d.longTask("bob")
	next, behind := d.follows("alice", "next"), d.follows("bob", "behind")
	d.crashAll("alice", "bob")
	d.start()
	d.eventually("both run again", func() bool { return len(d.runs("alice")) == 2 && len(d.runs("bob")) == 2 })
	again := d.taskRecord("alice.3")
	require.Equal(t, one, again.RetryOf)
	require.Equal(t, 1, again.Interruptions)
	require.Empty(t, d.taskRecord(one).Interrupted)
	require.Equal(t, api.OutcomeLost, d.taskRecord(one).Outcome)
	require.Equal(t, api.TaskQueued, d.taskRecord(next).State)
	d.goOn("bob")
	d.ended(behind, api.OutcomeNothing)
	require.Equal(t, []string{"long", "long", "behind"}, d.runs("bob"))
	require.Equal(t, other, d.taskRecord("bob.3").RetryOf)

	d.crashAll("alice", "bob")
	d.start()
	require.Equal(t, api.InterruptedKept, d.ended("alice.3", api.OutcomeLost).Interrupted)
	require.Equal(t, 2, d.taskRecord("alice.3").Interruptions)
	require.Equal(t, "alice.3", d.taskRecord(next).Waits.Task)
	require.Len(t, d.runs("alice"), 2)
	d.goOn("alice")
	d.must("tasks", "retry", "alice.3")
	require.Zero(t, d.taskRecord("alice.4").Interruptions, "the count begins again with a person's retry")
	d.ended(next, api.OutcomeNothing)
}

// TestAStopOfTheMachineIsARestart: a task that ran when polisd was stopped is retried as well.
func TestAStopOfTheMachineIsARestart(t *testing.T) {
	d := startDaemon(t, options{config: "[tasks]\non_restart = \"retry\"\n"})
	d.up()
	d.worker("alice")
	one := d.longTask("alice")
	d.stop()
	d.start()
	d.eventually("it runs again", func() bool { return len(d.runs("alice")) == 2 })
	require.Equal(t, one, d.taskRecord("alice.2").RetryOf)
	d.goOn("alice")
	d.ended("alice.2", api.OutcomeNothing)
}

// TestAPersonIsAskedAboutALostTask once for each interruption. The question ends when that task is retried or dismissed, and
// with nothing else that the agent does.
func TestAPersonIsAskedAboutALostTask(t *testing.T) {
	d := startDaemon(t, options{config: "[tasks]\non_restart = \"ask\"\n[patrol]\ninterval = \"1s\"\n"})
	d.up()
	d.worker("alice")
	d.worker("bob")
	one, other := d.longTask("alice"), d.longTask("bob")
	behind := d.follows("bob", "behind")
	d.crashAll("alice", "bob")
	d.start()
	d.eventually("a case for each", func() bool { return len(d.taskCases()) == 2 })
	d.crashAll("alice", "bob")
	d.start()
	all := d.taskCases()
	require.Len(t, all, 2)
	for _, c := range all {
		require.Equal(t, 1, c.Seen, "there is one question")
		require.Contains(t, c.Next, "polisctl tasks retry "+c.Task)
	}
	d.goOn("alice")
	d.ended(d.longTaskEnded("alice"), api.OutcomeNothing)
	require.Len(t, d.taskCases(), 2, "another task decides nothing")
	d.must("tasks", "retry", one)
	d.ended("alice.3", api.OutcomeNothing)
	left := d.taskCases()
	require.Len(t, left, 1)
	require.Equal(t, other, left[0].Task)
	require.Equal(t, api.TaskQueued, d.taskRecord(behind).State)
	d.must("tasks", "cancel", other)
	require.Empty(t, d.taskCases())
	d.ended(behind, api.OutcomeNothing)
	require.Contains(t, d.must("patrol", "cases", "--all"), "it was dismissed")
}

// longTaskEnded is longTask when $HOME/go is there already.
func (d *daemon) longTaskEnded(agent string) string {
	d.t.Helper()
	var t api.Task
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "run", "-d", agent, "true")), &t))
	return t.ID
}

// TestTheRetryOfALostTaskSurvivesACrash: polisd dies after it has noticed the loss, or between the retry and its note. The
// task is retried, once.
func TestTheRetryOfALostTaskSurvivesACrash(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: "[tasks]\non_restart = \"retry\"\n"})
	d.up()
	d.worker("alice")
	n := 0
	for _, step := range []string{"restart:lost", "restart:queued", "task:ended", "task:measured"} {
		before := len(d.runs("alice"))
		one := d.longTask("alice")
		next := d.follows("alice", "next")
		d.crashAll("alice")
		d.dieAtStart(step)
		d.eventually(step+": it runs again", func() bool { return len(d.runs("alice")) >= before+2 })
		d.goOn("alice")
		d.ended(next, api.OutcomeNothing)
		require.Equal(t, []string{"long", "long", "next"}, d.runs("alice")[before:], step)
		retries := 0
		for _, task := range d.tasks("alice") {
			if task.RetryOf == one {
				retries++
			}
		}
		require.Equal(t, 1, retries, step)
		require.Empty(t, d.taskRecord(one).Interrupted, step)
		require.NoError(t, os.Remove(d.home("alice", "go")))
		n += 3
		require.Len(t, d.tasks("alice"), n, step)
	}
	require.NoFileExists(t, filepath.Join(d.dir, "failpoint"))
}

// TestTheQuestionAboutALostTaskSurvivesACrash likewise.
func TestTheQuestionAboutALostTaskSurvivesACrash(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: "[tasks]\non_restart = \"ask\"\n"})
	d.up()
	d.worker("alice")
	for _, step := range []string{"restart:lost", "restart:asked"} {
		one := d.longTask("alice")
		next := d.follows("alice", "next")
		d.crashAll("alice")
		d.dieAtStart(step)
		d.eventually(step+": one question", func() bool { return len(d.taskCases()) == 1 })
		require.Equal(t, one, d.taskCases()[0].Task)
		require.Equal(t, api.TaskQueued, d.taskRecord(next).State)
		d.must("tasks", "cancel", one)
		require.Empty(t, d.taskCases())
		d.ended(next, api.OutcomeNothing)
	}
}

// TestAShimsDeathAloneKeepsItsTask whatever the setting: its agent is in Error, and run or retry brings it up.
func TestAShimsDeathAloneKeepsItsTask(t *testing.T) {
	d := startDaemon(t, options{config: "[tasks]\non_restart = \"retry\"\n"})
	d.up()
	d.worker("alice")
	one := d.longTask("alice")
	next := d.follows("alice", "next")
	require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGKILL))
	d.eventually("alice is in Error", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusError })
	d.eventually("its task is kept", func() bool { return d.taskRecord(one).Interrupted == api.InterruptedKept })
	require.Equal(t, api.WaitLost, d.taskRecord(next).Waits.For)
	require.Len(t, d.tasks("alice"), 2)
	d.goOn("alice")
	d.must("tasks", "retry", one)
	d.ended(next, api.OutcomeNothing)
	require.Equal(t, []string{"long", "long", "next"}, d.runs("alice"))
}
