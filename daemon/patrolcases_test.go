package daemon

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/patrol"
	"polis/daemon/patrol/cases"
	"polis/daemon/patrol/cleanup"
	"polis/daemon/store/events"
)

// oneKept is an agent whose work has ended and that stays.
type oneKept struct {
	state cleanup.State
	c     api.Cleanup
}

func (o oneKept) Ephemeral() []string { return []string{o.c.Agent} }

func (o oneKept) WorkOver(context.Context, string) (cleanup.State, string, bool) {
	return o.state, "it is over", true
}

func (o oneKept) CleanUp(context.Context, cleanup.State, bool) (api.Cleanup, error) { return o.c, nil }

// A case is about one agent: if that is removed, it is resolved, also if another agent has got its
// name by then, and is in the same state.
func TestACaseIsNotTakenForAnotherAgentOfThatName(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	observed := func(created time.Time) patrol.Observed {
		return patrol.Observed{Agent: "a", Workspace: "w", Created: created, Generation: 1, Status: api.StatusRunning, Shim: true, Program: true, PID: 7, Began: 9, Task: "a.1"}
	}
	finding := func(created time.Time) (patrol.Suspect, api.PatrolFinding) {
		return patrol.Suspect{Observed: observed(created)}, api.PatrolFinding{Class: api.PatrolStalled, Agent: "a", Workspace: "w", Generation: 1, Task: "a.1"}
	}
	work := func(created time.Time) cleanup.State {
		return cleanup.State{Agent: "a", Workspace: "w", Created: created, Generation: 1, Status: api.StatusIdle, Task: "a.1"}
	}
	escalated := api.Cleanup{Agent: "a", Workspace: "w", Task: "a.1", Action: api.CleanupEscalate}
	d := &Daemon{Log: slog.New(slog.DiscardHandler), hub: events.New(1), cases: &cases.Book{Now: func() time.Time { return began }}}
	p := newPatroller(d)
	open := func(s patrol.Suspect, f api.PatrolFinding) {
		c, ok := patrol.Case(s, f)
		require.True(t, ok)
		d.openCase(c)
	}
	decide := func(created time.Time) { p.rounds.Run(t.Context(), oneKept{work(created), escalated}, true, false) }

	first, f := finding(began)
	open(first, f)
	decide(began)
	_, fresh := d.openCase(api.Case{State: api.CasePending, Kind: patrol.KindBreaker, Workspace: "w", Agent: "a", AgentCreated: began, Incident: "1"})
	require.True(t, fresh)
	p.settle(began, []api.PatrolFinding{f}, []patrol.View{{Observed: first.Observed}})
	p.settleCleanups([]api.Cleanup{escalated})
	require.Len(t, d.cases.List("", false), 3, "all of it is still so")

	// The agent is removed. Another one gets its name, stalls and is kept as it was.
	second, f := finding(began.Add(time.Minute))
	open(second, f)
	decide(second.Created)
	p.settle(began.Add(-1), []api.PatrolFinding{f}, []patrol.View{{Observed: second.Observed}})
	require.Len(t, d.cases.List("", false), 5, "a case that was opened after the cycle began is not judged by it")
	p.settle(began, []api.PatrolFinding{f}, []patrol.View{{Observed: second.Observed}})
	p.settleCleanups([]api.Cleanup{escalated})
	still := d.cases.List("", false)
	require.Len(t, still, 2)
	for _, c := range still {
		require.True(t, c.AgentCreated.Equal(second.Created), "%+v", c)
	}
	for _, c := range d.cases.List("", true)[:3] {
		require.Equal(t, "the agent was removed", c.Resolution.How, "%+v", c)
	}

	// What a person answered about the first does not hold for the third.
	answered, err := d.cases.Resolve(still[0].ID, "root", "it may wait")
	require.NoError(t, err)
	third, f := finding(began.Add(time.Hour))
	open(third, f)
	all := d.cases.List("", false)
	require.Len(t, all, 2)
	require.NotEqual(t, answered.ID, all[1].ID)
	require.True(t, all[1].AgentCreated.Equal(third.Created))
}
