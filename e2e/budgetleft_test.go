package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/gateway/ledger"
)

// asker is a process that a command leaves running, with another parent and a session of its own: it sends a request to a
// model each time that the file "ask" is made, and writes the status to "answers".
const asker = `cat >"$HOME/asker" <<'END'
while sleep 0.05; do if rm "$HOME/ask" 2>/dev/null; then ` + modelStatus + `fi; done
END
( setsid sh "$HOME/asker" >>"$HOME/answers" 2>&1 & ); `

// left has the process that a task left running send a request, and returns the status.
func (d *daemon) left(agent string) string {
	d.t.Helper()
	before := readFile(d.home(agent, "answers"))
	require.NoError(d.t, os.WriteFile(d.home(agent, "ask"), nil, 0o666))
	require.NoError(d.t, os.Chmod(d.home(agent, "ask"), 0o666))
	var now string
	d.eventually("it has an answer", func() bool {
		now = readFile(d.home(agent, "answers"))
		return now != before && strings.HasSuffix(now, " ")
	})
	return strings.TrimPrefix(now, before)
}

// TestWhatATaskLeftRunningHasNoBudgetOfItsOwn: its requests use the budget of the task, also after that has ended, while
// another task runs, and after a crash of polisd. What a person runs in the agent is of no task.
func TestWhatATaskLeftRunningHasNoBudgetOfItsOwn(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: shortPatrol + "[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\n" +
		"[gateway]\nmodels = [\"claude\"]\ntask_tokens = 200\non_budget = \"ask\"\n"})
	d.up()
	d.worker("ana")
	d.must("agents", "run", "ana", asker+modelStatus)
	require.Equal(t, "ana.1", d.settled("ana").ID)
	require.Equal(t, "200 ", d.left("ana"), "120 of 200")
	require.Equal(t, "429 ", d.left("ana"))
	require.Empty(t, d.questions(), "no question is about a task that has ended")
	require.Equal(t, "200 ", d.sh("ana", modelStatus), "a person's command is of no task")

	require.NoError(t, d.signalRestart())
	require.Equal(t, "429 ", d.left("ana"))

	d.must("agents", "run", "ana", modelStatus+"touch \"$HOME/begun\"; while ! test -e \"$HOME/end\"; do sleep 0.05; done")
	d.eventually("another task runs", func() bool { _, err := os.Stat(d.home("ana", "begun")); return err == nil })
	require.Equal(t, "429 ", d.left("ana"), "the budget of the other task is not for it")
	require.NoError(t, os.WriteFile(d.home("ana", "end"), nil, 0o644))
	require.Equal(t, "ana.2", d.settled("ana").ID)
	require.Equal(t, "429 ", d.left("ana"))

	// What no task is known of is within the budget of the last one, also after a new start of the agent.
	d.must("agents", "stop", "ana")
	d.must("agents", "start", "ana")
	d.idle("ana")
	require.Equal(t, "200 ", d.sh("ana", modelStatus+asker))
	require.Equal(t, "200 ", d.left("ana"), "120 of 200 were used by ana.2")
	require.Equal(t, "429 ", d.left("ana"))

	used := map[string]int64{}
	for _, f := range glob(d.path("ws", ".*", "logs", "ana")) {
		rows, err := ledger.Read(f)
		require.NoError(t, err)
		for _, r := range rows {
			used[r.Task] += r.Total()
		}
	}
	require.Equal(t, map[string]int64{"ana.1": 240, "ana.2": 240, "": 240}, used)
}
