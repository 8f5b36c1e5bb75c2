package agent

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/history/task"
)

var everyState = []api.Status{noState, api.StatusCreating, api.StatusIdle, api.StatusRunning, api.StatusStopped, api.StatusError}

// TestTheDiagramIsInTheTable: what seed 000 draws, arrow by arrow, and nothing
// else without a reason.
func TestTheDiagramIsInTheTable(t *testing.T) {
	diagram := []string{
		" -> Creating: add", "Creating -> Idle: ready", "Creating -> Error: failure", "Idle -> Running: start", "Idle -> Running: run",
		"Running -> Idle: exit", "Running -> Stopped: stop", "Stopped -> Running: start", "Idle -> : remove", "Stopped -> : remove",
		"Running -> : remove --force", "Error -> : remove --force",
	}
	var drawn []string
	seen := map[string]bool{}
	for _, tr := range Transitions() {
		arrow := fmt.Sprintf("%s -> %s: %s", tr.From, tr.To, tr.By)
		require.False(t, seen[arrow], "%s is there twice", arrow)
		seen[arrow] = true
		require.NotEqual(t, tr.From, tr.To)
		if tr.Beyond == "" {
			drawn = append(drawn, arrow)
		}
	}
	require.ElementsMatch(t, diagram, drawn)
}

// TestEveryOtherTransitionIsRefused takes any walk of verbs through the
// states: what the table has happens, what it has not is refused with the state and
// with what is allowed, and the state is as it was.
func TestEveryOtherTransitionIsRefused(t *testing.T) {
	verbs := []string{verbStart, verbRun, verbSend, verbStop, verbRemove, verbForce}
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(dir)
		defer w.Close()
		ctx := context.Background()
		_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sleep"}}})
		require.NoError(rt, err)
		a, err := w.lookup("a1")
		require.NoError(rt, err)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			// Events happen too.
			switch rapid.SampledFrom([]string{"", "exit", "oom"}).Draw(rt, "event") {
			case "exit":
				if a.status(w.Manager) == api.StatusRunning {
					w.setStatus(a, api.StatusIdle, "")
				}
			case "oom":
				if s := a.status(w.Manager); s == api.StatusRunning || s == api.StatusIdle {
					w.setStatus(a, api.StatusError, "OOM_KILLED")
				}
			}
			from := a.status(w.Manager)
			verb := rapid.SampledFrom(verbs).Draw(rt, "verb")
			switch verb {
			case verbStart:
				_, err = w.Start(ctx, "a1", false)
			case verbRun:
				_, err = w.Run(ctx, "a1", api.RunRequest{Prompt: "x"})
			case verbSend:
				_, err = w.Send(ctx, "a1", api.SendRequest{Text: "x"})
			case verbStop:
				_, err = w.Stop(ctx, "a1")
			default:
				_, err = w.Remove(ctx, "a1", verb == verbForce, false)
			}
			i := slices.IndexFunc(Transitions(), func(tr Transition) bool { return tr.From == from && tr.By == verb })
			_, gone := w.lookup("a1")
			switch {
			case i >= 0 && Transitions()[i].To == noState:
				require.NoError(rt, err)
				require.Error(rt, gone)
				return
			case i >= 0:
				require.NoError(rt, err, "%s of an agent that is %s", verb, from)
				require.Equal(rt, Transitions()[i].To, a.status(w.Manager))
			case already(from, verb), verb == verbSend && from == api.StatusRunning:
				require.NoError(rt, err)
				require.Equal(rt, from, a.status(w.Manager))
			default:
				require.Equal(rt, api.CodeBadState, api.CodeOf(err), "%s of an agent that is %s", verb, from)
				e := api.AsError(err)
				require.Equal(rt, from, e.Details["state"])
				require.Equal(rt, Verbs(from), e.Details["allowed"])
				require.Contains(rt, e.Message, string(from))
				require.NotEmpty(rt, e.Hint)
				require.Equal(rt, from, a.status(w.Manager))
			}
		}
	})
}

// TestAStateThatCannotBeReachedIsNotEntered, by no verb.
func TestAStateThatCannotBeReachedIsNotEntered(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom"})
	require.NoError(t, err)
	a, err := w.lookup("a1")
	require.NoError(t, err)
	for _, from := range everyState {
		for _, to := range everyState {
			w.found(a, from, "")
			w.setStatus(a, to, "")
			if May(from, to) {
				require.Equal(t, to, a.status(w.Manager))
			} else {
				require.Equal(t, from, a.status(w.Manager))
			}
		}
	}
}

// TestAnAgentThatIsBeingMadeIsRefusedAtOnce, and not when it is ready.
func TestAnAgentThatIsBeingMadeIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	a, err := w.reserve(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"x"}}}, nil)
	require.NoError(t, err)
	defer a.op.Unlock()
	_, err = w.Run(t.Context(), "a1", api.RunRequest{Prompt: "x"})
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	_, err = w.Remove(t.Context(), "a1", true, false)
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	require.Empty(t, api.AsError(err).Details["allowed"])
}

// Feature: multi-agent-workspaces, Property 23: Broadcast Command Delivery
func TestBroadcastReachesEveryRunningAgent(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(dir)
		defer w.Close()
		ctx := context.Background()
		var running []string
		for i := range rapid.IntRange(0, 4).Draw(rt, "agents") {
			n := fmt.Sprintf("a%d", i)
			_, err := w.Add(ctx, api.AddRequest{Name: n, BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"cat"}}})
			require.NoError(rt, err)
			switch rapid.SampledFrom([]string{"idle", "running", "stopped"}).Draw(rt, n) {
			case "running":
				_, err = w.Start(ctx, n, false)
				running = append(running, n)
			case "stopped":
				_, err = w.Stop(ctx, n)
			}
			require.NoError(rt, err)
		}
		deaf := ""
		if len(running) > 0 && rapid.Bool().Draw(rt, "one is deaf") {
			deaf = rapid.SampledFrom(running).Draw(rt, "who")
			w.k.fail = "input " + deaf
		}
		text := rapid.StringMatching(`[a-z]{1,20}( [a-zé]{1,9}){0,3}`).Draw(rt, "text")
		resp, err := w.Broadcast(ctx, "user:0", api.BroadcastRequest{Text: text})
		require.NoError(rt, err)
		require.Len(rt, resp.Results, len(running))
		for i, r := range resp.Results {
			require.Equal(rt, running[i], r.Agent)
			require.Equal(rt, r.Agent == deaf, r.Error != nil)
			if r.Agent == deaf {
				continue
			}
			require.Equal(rt, []string{text}, w.k.received[r.Agent])
			tasks, err := w.Tasks(r.Agent)
			require.NoError(rt, err)
			require.Equal(rt, text, tasks[len(tasks)-1].Prompt)
			require.Equal(rt, api.TaskBroadcast, tasks[len(tasks)-1].Via)
		}
		for n, received := range w.k.received {
			require.Contains(rt, running, n, "%v was for the running agents only", received)
		}
	})
}

// Feature: multi-agent-workspaces, Property 24: Agent Auto-Start on Task
// Feature: multi-agent-workspaces, Property 25: Task Logging
func TestATaskStartsItsAgentFirstAndIsLogged(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(dir)
		defer w.Close()
		ctx := context.Background()
		_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}}})
		require.NoError(rt, err)
		old, err := w.Tasks("a1")
		require.NoError(rt, err)
		up := map[bool]int{}
		w.k.started = func(name string, up0 bool) { up[up0]++ }
		var prompts []string
		for range rapid.IntRange(1, 4).Draw(rt, "tasks") {
			if rapid.Bool().Draw(rt, "stopped") {
				_, err = w.Stop(ctx, "a1")
				require.NoError(rt, err)
			}
			before := w.Now().UTC()
			p := rapid.StringMatching(`[^\x00]{0,40}[a-z]`).Draw(rt, "prompt")
			got, err := w.Run(ctx, "a1", api.RunRequest{Prompt: p})
			require.NoError(rt, err)
			prompts = append(prompts, p)
			require.False(rt, got.Time.Before(before))
			tasks, err := w.Tasks("a1")
			require.NoError(rt, err)
			require.Len(rt, tasks, min(len(old)+len(prompts), task.MaxTasks))
			last := tasks[len(tasks)-1]
			require.Equal(rt, p, last.Prompt)
			require.True(rt, got.Time.Equal(last.Time))
			a, err := w.lookup("a1")
			require.NoError(rt, err)
			w.setStatus(a, api.StatusIdle, "") // it is done
		}
		require.Equal(rt, map[bool]int{true: len(prompts)}, up, "every task was delivered to an agent that was up")
	})
}
