package patrol

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestFindingsThatBecomeCases(t *testing.T) {
	s := Suspect{Observed: at(0), Class: api.PatrolStalled}
	f := api.PatrolFinding{Class: api.PatrolStalled, Agent: "a", Action: api.OnStallStop, Evidence: []string{"no output"}}
	for name, c := range map[string]struct {
		change   func(f *api.PatrolFinding)
		open     bool
		evidence int
	}{
		"only reported":      {func(f *api.PatrolFinding) { f.Action = api.OnStallReport }, true, 1},
		"its agent stopped":  {func(f *api.PatrolFinding) { f.Done = true }, false, 0},
		"its agent nudged":   {func(f *api.PatrolFinding) { f.Action, f.Done = api.OnStallNudge, true }, true, 1},
		"its action refused": {func(f *api.PatrolFinding) { f.Skipped = "it is busy" }, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := f
			c.change(&f)
			got, open := Case(s, f)
			require.Equal(t, c.open, open)
			require.Len(t, got.Evidence, c.evidence)
			if open {
				require.Equal(t, Incident(s.Observed), got.Incident)
				require.Equal(t, Resolves(f.Class), got.Resolves)
			}
		})
	}
	require.Len(t, f.Evidence, 1, "the evidence of the finding is not changed")
}

func TestCasesOfBreakers(t *testing.T) {
	c := BreakerCase("w", "a", began, api.Frozen{At: began, Trip: &api.Trip{Processes: []string{"7 rm"}, Paths: []string{"x\n"}, FrozenMicros: -1}}, "breaker deletions")
	require.Equal(t, KindBreaker, c.Kind)
	require.Equal(t, []string{"breaker deletions", "processes: 7 rm", `last: "x\n"`}, c.Evidence[:3])
	require.Len(t, c.Evidence, 4)
	running := View{Observed: at(0)}
	c.ID, c.Workspace, c.Agent, c.AgentCreated = "case-1", running.Workspace, running.Agent, running.Created
	ends := func(v View) []Ended { return EndedCases([]api.Case{c}, began, nil, []View{v}) }
	require.Empty(t, ends(running), "it is frozen, and nothing has changed")
	stopped := running
	stopped.Status = api.StatusStopped
	require.Equal(t, []Ended{{"case-1", "the agent is " + string(api.StatusStopped)}}, ends(stopped))
	require.Equal(t, []Ended{{"case-1", "the agent was removed"}}, EndedCases([]api.Case{c}, began, nil, nil))
	c.Opened = began.Add(1)
	require.Empty(t, EndedCases([]api.Case{c}, began, nil, nil), "it was opened after the cycle began")
}

func TestAFindingIsReportedOnce(t *testing.T) {
	var r Reported
	expect := func(incident string, f api.PatrolFinding, wantAct, wantNews bool) {
		t.Helper()
		act, news := r.Begin(incident, &f, false)
		require.Equal(t, wantAct, act)
		require.Equal(t, wantNews, news)
		require.Equal(t, wantAct, f.Skipped == "")
	}
	o := at(0)
	one := Incident(o)
	f := api.PatrolFinding{Class: api.PatrolStalled, Agent: "a", Generation: 1, Action: api.OnStallStop, Since: began}
	dry := f
	act, news := r.Begin(one, &dry, true)
	require.False(t, act || news)
	require.Equal(t, "a dry run", dry.Skipped)
	expect(one, f, true, true)
	expect(one, f, false, false)
	later := f
	later.Since = began.Add(1)
	expect(one, later, false, false)
	r.Forget(nil, []View{{Observed: o}})
	expect(one, later, false, false)
	later.Class = api.PatrolSpinning
	expect(one, later, false, false)
	expect("another program", later, true, true)
	expect(one, f, true, true)
	r.Forget(nil, []View{{Observed: o, Moving: true}})
	expect(one, f, true, true)
	r.Forget(nil, nil)
	expect(one, f, true, true)
	dead := api.PatrolFinding{Class: api.PatrolAgentDead, Agent: "a", Action: "reconcile"}
	expect(one, dead, true, true)
	expect(one, dead, true, false)
	r.Forget([]api.PatrolFinding{dead}, []View{{Observed: o}})
	expect(one, dead, true, false)
	r.Forget(nil, []View{{Observed: o}})
	expect(one, dead, true, true)
}

func TestTheEventOfAFinding(t *testing.T) {
	f := api.PatrolFinding{Class: api.PatrolStalled, Agent: "a", Action: api.OnStallStop, Evidence: []string{"no output", "no input"}}
	Conclude(&f, errors.New("it is busy"))
	require.Contains(t, Event(f).Message, "agent a: "+string(api.PatrolStalled)+": no output; no input; not done ("+api.OnStallStop+"): ")
	f.Skipped = ""
	Conclude(&f, nil)
	require.True(t, f.Done)
	require.Contains(t, Event(f).Message, "; done: "+api.OnStallStop)
	f.Action = api.OnStallReport
	Conclude(&f, nil)
	require.False(t, f.Done, "a report does nothing")
}

func TestTheCheckpointFromBeforeACase(t *testing.T) {
	began := time.Unix(1e9, 0)
	sec := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	trip := &api.Frozen{At: sec(60), Trip: &api.Trip{Seconds: 2.5}}
	c := api.Case{Agent: "a", Task: "a.3", AgentCreated: began}
	files := func(n int, s api.Snapshot) api.Snapshot {
		s.Covers, s.Time = api.SnapshotFiles, sec(n)
		return s
	}
	for name, x := range map[string]struct {
		frozen *api.Frozen
		s      api.Snapshot
		want   bool
	}{
		"before what the breaker counted": {trip, files(57, api.Snapshot{Why: api.SnapshotByTool}), true},
		"while it counted":                {trip, files(58, api.Snapshot{}), false},
		"a breaker without a span":        {&api.Frozen{At: sec(60)}, files(59, api.Snapshot{}), true},
		"after the freeze":                {trip, files(61, api.Snapshot{}), false},
		"of an agent of the same name":    {trip, files(-1, api.Snapshot{}), false},
		"of other files":                  {trip, api.Snapshot{Covers: api.SnapshotDeclared, Time: sec(1)}, false},
		"before the task":                 {nil, files(90, api.Snapshot{Why: api.SnapshotByTask, Task: 3}), true},
		"before another task":             {nil, files(90, api.Snapshot{Why: api.SnapshotByTask, Task: 2}), false},
		"before a tool":                   {nil, files(1, api.Snapshot{Why: api.SnapshotByTool, Task: 3}), false},
	} {
		require.Equal(t, x.want, BeforeCase(c, x.frozen, x.s), name)
	}
	require.False(t, BeforeCase(api.Case{Agent: "a", AgentCreated: began}, nil, files(1, api.Snapshot{Why: api.SnapshotByTask})), "no task")
	got := WithRewind(api.Case{Agent: "a", Next: "x"}, api.Snapshot{ID: "s1"})
	require.Equal(t, "s1", got.Rewind)
	require.Contains(t, got.Next, "x; polisctl rewind a --to s1")
}
