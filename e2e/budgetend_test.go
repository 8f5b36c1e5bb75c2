package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

const modelStatus = `curl -sS --max-time 120 -o /dev/null -w '%{http_code} ' "$ANTHROPIC_BASE_URL/v1/messages" -H "content-type: application/json" -d '{"model":"good-1"}'; `

// TestASpentBudgetAsksAPersonAndTheAgentIsFrozen until the answer, which neither a crash of polisd loses nor a
// new start of the agent.
func TestASpentBudgetAsksAPersonAndTheAgentIsFrozen(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: shortPatrol + "[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\n" +
		"[gateway]\nmodels = [\"claude\"]\nday_tokens = 200\non_budget = \"ask\"\nbudget_step = 100\n"})
	d.up()
	d.worker("ana")
	const beat = "while :; do date +%s%N > beat; sleep 0.02; done"
	d.must("agents", "run", "ana", beat)
	beats := func() bool {
		a, _ := d.agent("ana")
		file := filepath.Join(a.WorktreePath, "beat")
		before := readFile(file)
		for range 50 {
			time.Sleep(20 * time.Millisecond)
			if readFile(file) != before {
				return true
			}
		}
		return false
	}
	d.eventually("it beats", func() bool {
		a, _ := d.agent("ana")
		_, err := os.Stat(filepath.Join(a.WorktreePath, "beat"))
		return err == nil
	})
	require.Equal(t, "200 200 ", d.sh("ana", modelStatus+modelStatus))
	got := d.asking("ana", modelStatus)
	q := d.question("ana")
	require.Equal(t, api.ApprovalBudget, q.Kind)
	require.Equal(t, "raise day_tokens to 400", q.What)
	require.Contains(t, q.Note, "240 of 200 tokens of the day")
	require.False(t, beats(), "its processes are frozen")
	require.Equal(t, 2, s.requests())
	w := d.waiting("ana")
	require.NotNil(t, w)
	require.Equal(t, api.WaitingApproval, w.For)
	d.patrol()
	require.Empty(t, d.openCases(), "it waits for a person")
	require.Contains(t, d.must("events"), "agent ana was frozen: its model budget is spent: 240 of 200 tokens of the day")

	// The question survives polisd.
	require.NoError(t, d.signalRestart())
	require.Equal(t, q.ID, d.question("ana").ID)
	require.Empty(t, d.openCases())
	d.must("approvals", "approve", q.ID)
	require.Equal(t, "200 ", (<-got).stdout, "the request itself is answered")
	require.True(t, beats(), "it was thawed")
	require.Nil(t, d.waiting("ana"))
	a, _ := d.agent("ana")
	require.Equal(t, 90, a.Models.Budget.Percent)

	// The raise is of this day, also after a new start. A denial refuses and thaws.
	d.must("agents", "stop", "ana")
	d.must("agents", "start", "ana")
	d.idle("ana") // the start ran its command, without a task
	d.must("agents", "run", "ana", beat)
	require.Equal(t, "200 ", d.sh("ana", modelStatus), "360 of 400")
	got = d.asking("ana", modelStatus)
	q = d.question("ana")
	require.Equal(t, "raise day_tokens to 800", q.What)
	for amount, why := range map[string]string{"80": "raise it by 81 tokens or more", "100.5": "must be a number of tokens"} {
		r := d.ctl("approvals", "approve", q.ID, "--raise", amount)
		require.NotZero(t, r.code)
		require.Contains(t, r.stderr, why)
	}
	require.Contains(t, d.must("approvals", "approve", q.ID, "--raise", "100"), "raised by 100")
	require.Equal(t, "200 ", (<-got).stdout)
	a, _ = d.agent("ana")
	require.Equal(t, "600 of 500 tokens of the day", a.Models.Budget.Text)
	got = d.asking("ana", modelStatus)
	q = d.question("ana")
	require.Equal(t, "raise day_tokens to 1000", q.What)
	d.must("approvals", "deny", q.ID)
	require.Equal(t, "429 ", (<-got).stdout)
	require.True(t, beats())
	require.Equal(t, "429 ", d.sh("ana", modelStatus), "it is not asked again")
	require.Empty(t, d.questions())
	require.Equal(t, 5, s.requests())
}

// TestASpentBudgetStopsTheTask after the answer that spent it; what the task wrote stays.
func TestASpentBudgetStopsTheTask(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"0s\"\n[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\n" +
		"[gateway]\nmodels = [\"claude\"]\non_budget = \"stop\"\n[roles.task.gateway]\ntask_tokens = 200\n[roles.small.gateway]\ntask_tokens = 10\n[roles.day.gateway]\nday_tokens = 200\n"})
	d.up()
	work := "mkdir -p of-NAME; cd of-NAME; echo work > work.txt; " + strings.ReplaceAll(modelStatus, "-o /dev/null", "-o answer$i") + "i=2; " + strings.ReplaceAll(modelStatus, "-o /dev/null", "-o answer$i") + "exec sleep 1000"
	for name, bound := range map[string]string{"tina": "task", "dora": "day"} {
		d.worker(name, "--role", bound)
		d.must("agents", "run", name, strings.ReplaceAll(work, "NAME", name))
		task := d.settled(name)
		require.Equal(t, api.EndBudget, task.EndedBy, "%+v", task)
		require.Equal(t, api.OutcomeStopped, task.Outcome)
		require.Contains(t, task.Result, "stopped: its model budget was spent: 240 of 200 tokens of the "+bound)
		a, _ := d.agent(name)
		for _, f := range []string{"answer", "answer2"} {
			require.Contains(t, readFile(filepath.Join(a.WorktreePath, "of-"+name, f)), `"output_tokens":20`, "the answer is finished")
		}
		require.Equal(t, "work\n", readFile(filepath.Join(a.WorktreePath, "of-"+name, "work.txt")))
		d.eventually(name+" has stopped if its day is spent", func() bool { a, _ := d.agent(name); return (a.Status == api.StatusStopped) == (bound == "day") })
	}
	// The agent itself continues with another task.
	d.must("agents", "run", "tina", "true")
	require.Equal(t, api.EndExit, d.settled("tina").EndedBy)

	// An end that polisd has not seen is made up for.
	s.mu.Lock()
	s.hold = make(chan struct{})
	s.mu.Unlock()
	d.worker("rita", "--role", "small")
	d.must("agents", "run", "rita", strings.Replace(modelStatus, `"good-1"`, `"good-1","stream":true`, 1)+"exec sleep 1000")
	d.eventually("it sends a request", func() bool { return s.requests() == 5 })
	require.Error(t, d.signal(syscall.SIGKILL))
	close(s.hold)
	d.eventually("its answer is counted", func() bool { return d.countsOf("rita").Requests == 1 })
	d.start()
	require.Equal(t, api.EndBudget, d.settled("rita").EndedBy)
}
