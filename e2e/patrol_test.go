package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// shortPatrol makes states findings after seconds. The tests run the cycles.
const shortPatrol = "[patrol]\ninterval = \"0s\"\nstalled_after = \"2s\"\nspinning_after = \"4s\"\ndone_after = \"2s\"\n"

func (d *daemon) patrol(flags ...string) api.PatrolReport {
	d.t.Helper()
	var out api.PatrolReport
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json", "patrol", "run", "--once"}, flags...)...)), &out))
	return out
}

func (d *daemon) openCases() []api.Case {
	d.t.Helper()
	var out struct{ Cases []api.Case }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "patrol", "cases")), &out))
	return out.Cases
}

// finding runs cycles until one has a finding about the agent.
func (d *daemon) finding(agent string, flags ...string) api.PatrolFinding {
	d.t.Helper()
	var out api.PatrolFinding
	d.eventually("the patrol finds something about "+agent, func() bool {
		for _, f := range d.patrol(flags...).Findings {
			if f.Agent == agent {
				out = f
			}
		}
		return out.Agent != ""
	})
	return out
}

// spared runs cycles for so long, and requires that none finds anything about the agents. It returns
// the longest time that each was quiet, and what it waited for then.
func (d *daemon) spared(long time.Duration, agents ...string) (quiet map[string]time.Duration, waits map[string]string) {
	d.t.Helper()
	quiet, waits = map[string]time.Duration{}, map[string]string{}
	for end := time.Now().Add(long); time.Now().Before(end); {
		rep := d.patrol()
		for _, f := range rep.Findings {
			require.NotContains(d.t, agents, f.Agent, "%+v", f)
		}
		for _, a := range rep.Agents {
			require.Empty(d.t, a.Error)
			if q := time.Duration(a.QuietSeconds * float64(time.Second)); q > quiet[a.Agent] {
				quiet[a.Agent], waits[a.Agent] = q, a.Waits
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return quiet, waits
}

// debug stops a process as a debugger does, until the test ends.
func debug(t *testing.T, pid int) {
	t.Helper()
	attached, end, ended := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the tracer is a thread
		defer runtime.UnlockOSThread()
		err := unix.PtraceSeize(pid)
		if err == nil {
			err = unix.PtraceInterrupt(pid)
		}
		attached <- err
		<-end
		_ = unix.PtraceDetach(pid) //nolint:errcheck // the process may have been killed
	}()
	require.NoError(t, <-attached)
	t.Cleanup(func() { close(end); <-ended })
}

// TestPatrolFindsWhatStallsOrSpins and does what its role says, and nothing else.
func TestPatrolFindsWhatStallsOrSpins(t *testing.T) {
	var roles strings.Builder
	for _, on := range []string{"nudge", "restart", "stop"} {
		fmt.Fprintf(&roles, "[roles.%s.patrol]\non_stall = %q\nnudge = \"wake up\"\n", on, on)
	}
	d := startDaemon(t, options{config: shortPatrol + roles.String()})
	d.up()
	add := func(name, role, script string) {
		args := []string{"agents", "add", name, "--base", "custom", "--write", "**"}
		if role != "" {
			args = append(args, "--role", role)
		}
		d.must(append(args, "--", "sh", "-c", script)...)
	}
	add("quiet", "", "exec sleep 1000")
	d.must("agents", "start", "--program", "quiet")
	dry := d.finding("quiet", "--dry-run")
	require.Equal(t, "a dry run", dry.Skipped)
	require.NotContains(t, d.must("--json", "events"), `"agent:patrol"`)
	f := d.finding("quiet")
	require.Equal(t, api.PatrolStalled, f.Class)
	require.Equal(t, api.OnStallReport, f.Action)
	require.Contains(t, strings.Join(f.Evidence, "\n"), "no connection to the outside is open")
	d.patrol()
	d.patrol()
	require.Equal(t, 1, strings.Count(d.must("--json", "events"), `"agent:patrol"`), "it is published once")
	require.Contains(t, d.must("patrol"), "quiet: stalled for")
	a, _ := d.agent("quiet")
	require.Equal(t, api.StatusRunning, a.Status, "a report touches nothing")
	c := d.openCases()
	require.Len(t, c, 1)
	require.Equal(t, []any{"stalled", "quiet", api.CaseZombieDetected}, []any{c[0].Kind, c[0].Agent, c[0].State})
	require.Contains(t, d.must("status"), "1 open (polisctl patrol cases)")
	d.must("agents", "stop", "quiet")
	d.patrol()
	require.Empty(t, d.openCases(), "the facts resolve it")
	require.Contains(t, d.must("patrol", "show", c[0].ID), "by the facts: the agent is Stopped")

	add("spins", "", "while :; do head -c 9 /dev/urandom | base64; sleep 0.1; done")
	d.must("agents", "run", "spins", "work")
	require.Equal(t, api.PatrolSpinning, d.finding("spins").Class)
	d.must("agents", "stop", "spins")

	add("nudged", "nudge", `read line; echo "heard: $line"; exec sleep 1000`)
	d.must("agents", "start", "--program", "nudged")
	require.True(t, d.finding("nudged").Done)
	d.eventually("the program has read the line", func() bool { return strings.Contains(d.must("agents", "watch", "nudged"), "heard: wake up") })

	add("stopped", "stop", "echo unsaved > unsaved.txt; exec sleep 1000")
	d.must("agents", "start", "--program", "stopped")
	require.True(t, d.finding("stopped").Done)
	a, _ = d.agent("stopped")
	require.Equal(t, api.StatusStopped, a.Status)
	require.FileExists(t, filepath.Join(a.WorktreePath, "unsaved.txt"), "what it had not saved stays")

	add("again", "restart", "echo x >> tries.txt; exec sleep 1000")
	d.must("agents", "run", "again", "work")
	require.True(t, d.finding("again").Done)
	d.eventually("its task runs once more", func() bool {
		a, _ := d.agent("again")
		text, err := os.ReadFile(filepath.Join(a.WorktreePath, "tries.txt"))
		return err == nil && string(text) == "x\nx\n" && a.Status == api.StatusRunning
	})
}

// TestPatrolLeavesAloneWhatWaitsOrWorks is about healthy agents that look dead: slow, stopped, in a
// debugger, compiling, or waiting for an answer, a lease or a model.
func TestPatrolLeavesAloneWhatWaitsOrWorks(t *testing.T) {
	const stalled, spinning = 3 * time.Second, 5 * time.Second
	world := newInternet(t)
	world.name("model.x.test", "203.0.113.1")
	d := world.startBehind("egress = [\"*.x.test\"]\n", fmt.Sprintf("[patrol]\ninterval = \"0s\"\nstalled_after = %q\nspinning_after = %q\ndone_after = \"2s\"\n", stalled, spinning)+
		"[roles.x]\nread = [\"**\"]\nwrite = [\"**\"]\npatrol = { on_stall = \"stop\" }\n[locks]\non_conflict = \"60s\"\n")
	d.up()
	work := func(name, script string) {
		d.worker(name, "--role", "x")
		d.must("agents", "run", name, script)
	}
	work("holder", "exec 3>>README.md; while :; do echo x >&3; date > now.txt; sleep 0.1; done")
	d.eventually("the lease is held", func() bool { return strings.Contains(d.must("locks"), "README.md") })
	work("slow", "while :; do date > slow.txt; sleep 1; done")
	work("compiles", "while :; do i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; date > obj.o; done")
	work("traced", "kill -STOP $$")
	work("debugged", "exec sleep 1000")
	work("waiter", "echo y >> README.md; exec sleep 1000")
	work("asks", "polisctl ask -- rm -rf build; exec sleep 1000")
	d.question("asks")
	d.eventually("it waits", func() bool { return strings.Contains(d.must("--json", "locks"), `"waiting"`) })
	debug(t, d.shimStatus("debugged").MainPID)
	work("model", `exec /usr/bin/python3 -c "import socket; s = socket.create_connection(('model.x.test', 80)); s.sendall(b'a question'); s.recv(100); open('asked.txt', 'w').close(); s.recv(100)"`)
	a, _ := d.agent("model")
	d.eventually("its model has the question", func() bool { return len(glob(filepath.Join(a.WorktreePath, "asked.txt"))) == 1 })

	quiet, waits := d.spared(7*time.Second, "holder", "slow", "compiles", "traced", "debugged", "waiter", "asks", "model")
	for name, want := range map[string]string{"traced": "stopped by a signal or a debugger", "debugged": "stopped by a signal or a debugger",
		"asks": "the answer to question", "waiter": "a lease on", "model": "1 connection to the outside"} {
		require.Greater(t, quiet[name], stalled, "%s was long enough quiet", name)
		require.Contains(t, waits[name], want)
	}
	for _, name := range []string{"holder", "slow", "compiles", "traced", "debugged", "waiter", "asks", "model"} {
		a, _ := d.agent(name)
		require.Equal(t, api.StatusRunning, a.Status, name)
	}
}

// TestPatrolEndsProgramsOfEndedTasks so that the next task can begin, and keeps their output and
// files.
func TestPatrolEndsProgramsOfEndedTasks(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol})
	d.up()
	d.must("agents", "add", "alice", "--base", "custom", "--write", "**", "--", "sh", "-c", "echo x >> out.txt; polisctl done; exec sleep 1000")
	d.must("agents", "run", "alice", "first")
	f := d.finding("alice")
	require.Equal(t, api.PatrolStuckInDone, f.Class)
	require.True(t, f.Done, "%+v", f)
	d.eventually("its program has ended", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })
	a, _ := d.agent("alice")
	require.FileExists(t, filepath.Join(a.WorktreePath, "out.txt"))
	// A new incarnation is judged by its own times.
	d.must("agents", "run", "alice", "second")
	require.Empty(t, d.patrol().Findings)
}

// TestPatrolRunsAutomatically in every interval, and sees what an agent does between two queries of its shim.
func TestPatrolRunsAutomatically(t *testing.T) {
	d := startDaemon(t, options{config: strings.Replace(shortPatrol, `interval = "0s"`, `interval = "1s"`, 1)})
	d.up()
	for name, script := range map[string]string{"quiet": "exec sleep 1000", "prints": "while :; do echo x; date > out.txt; sleep 0.2; done"} {
		d.must("agents", "add", name, "--base", "custom", "--write", "**", "--", "sh", "-c", script)
		d.must("agents", "start", "--program", name)
	}
	d.eventually("the quiet one is found", func() bool { return strings.Contains(d.must("--json", "events"), `agent quiet: stalled`) })
	require.NotRegexp(t, "agent prints: (stalled|spinning)", d.must("--json", "events"))
	d.eventually("the last cycle shows both", func() bool {
		text := d.must("patrol")
		return strings.Contains(text, "quiet: stalled for") && strings.Contains(text, "prints")
	})
}

// TestAnAgentIsFoundOnceItsWaitEnds: the automatic cycles read what an agent waits for once, while nothing of
// it runs. When it has its answer, or is continued, and hangs then, it is found.
func TestAnAgentIsFoundOnceItsWaitEnds(t *testing.T) {
	d := startDaemon(t, options{config: strings.Replace(shortPatrol, `interval = "0s"`, `interval = "1s"`, 1)})
	d.up()
	for name, script := range map[string]string{"asks": "polisctl ask -- rm -rf build || true; exec sleep 1000", "stopped": "kill -STOP $$; exec sleep 1000"} {
		d.worker(name)
		d.must("agents", "run", name, script)
	}
	q := d.question("asks")
	seen := 0
	d.eventually("several cycles see both wait", func() bool {
		var rep api.PatrolReport
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "patrol")), &rep))
		require.Empty(t, rep.Findings)
		long := 0
		for _, a := range rep.Agents {
			if a.QuietSeconds > 4 && a.Waits != "" {
				long++
			}
		}
		if long == 2 {
			seen++
		}
		return seen > 3
	})
	found := func(name string) func() bool {
		return func() bool { return strings.Contains(d.must("--json", "events"), "agent "+name+": stalled") }
	}
	d.must("approvals", "deny", q.ID)
	d.eventually("it has its answer and hangs", found("asks"))
	require.False(t, found("stopped")(), "the other still waits")
	require.NoError(t, syscall.Kill(d.shimStatus("stopped").MainPID, syscall.SIGCONT))
	d.eventually("it is continued and hangs", found("stopped"))
}

// TestCasesOutliveTheDaemon and a person's answer holds for the incident.
func TestCasesOutliveTheDaemon(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol})
	d.up()
	d.must("agents", "add", "quiet", "--base", "custom", "--write", "**", "--", "sh", "-c", "read line; echo more; exec sleep 1000")
	d.must("agents", "start", "--program", "quiet")
	d.finding("quiet")
	before := d.openCases()
	require.Len(t, before, 1)
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(t, before, d.openCases())
	d.finding("quiet")
	require.Len(t, d.openCases(), 1, "the same incident is one case")
	d.must("patrol", "resolve", before[0].ID, "--note", "it may wait")
	d.patrol()
	require.Empty(t, d.openCases())
	require.Equal(t, "polisctl patrol show "+before[0].ID+" shows how", d.refused(api.CodeBadState, "patrol", "resolve", before[0].ID).Hint)
	require.Contains(t, d.must("patrol", "show", before[0].ID), "it may wait")
	require.Contains(t, d.must("--json", "events"), `"patrol:case"`)

	// Another agent gets its name between two cycles. The answer was about the first one.
	a, _ := d.agent("quiet")
	require.True(t, before[0].AgentCreated.Equal(a.CreatedAt))
	d.must("agents", "remove", "--force", "quiet")
	d.must("agents", "add", "quiet", "--base", "custom", "--write", "**", "--", "sh", "-c", "exec sleep 1000")
	d.must("agents", "start", "--program", "quiet")
	d.finding("quiet")
	after := d.openCases()
	require.Len(t, after, 1)
	require.NotEqual(t, before[0].ID, after[0].ID)
	require.True(t, after[0].AgentCreated.After(before[0].AgentCreated))
}
