package patrol

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestFactsSettleCases(t *testing.T) {
	view := func(change ...func(v *View)) View {
		v := View{Observed: at(0), Quiet: time.Minute, Unchanged: time.Minute, Seen: time.Minute}
		for _, f := range change {
			f(&v)
		}
		return v
	}
	incident := Incident(at(0))
	for name, c := range map[string]struct {
		class api.PatrolClass
		v     View
		done  bool
	}{
		"stalled, and nothing seen since polisd began": {api.PatrolStalled, view(), false},
		"stalled, and it did something":                {api.PatrolStalled, view(func(v *View) { v.Quiet = time.Second }), true},
		"stalled, and not observed":                    {api.PatrolStalled, view(func(v *View) { v.Quiet, v.Err = 0, errors.New("no answer") }), false},
		"stalled, another program":                     {api.PatrolStalled, view(func(v *View) { v.PID++ }), true},
		"stalled, another agent of that name":          {api.PatrolStalled, view(func(v *View) { v.Created = v.Created.Add(1) }), true},
		"stalled, its process number was given again":  {api.PatrolStalled, view(func(v *View) { v.Began++ }), true},
		"stalled, another shim":                        {api.PatrolStalled, view(func(v *View) { v.Generation++ }), true},
		"stalled, and stopped":                         {api.PatrolStalled, view(func(v *View) { v.Status, v.Shim, v.Program = api.StatusStopped, false, false }), true},
		"spinning, and it only printed":                {api.PatrolSpinning, view(func(v *View) { v.Quiet = 0 }), false},
		"spinning, and it wrote":                       {api.PatrolSpinning, view(func(v *View) { v.Unchanged = 0 }), true},
		"stuck in done, and it wrote":                  {api.PatrolStuckInDone, view(func(v *View) { v.Quiet, v.Unchanged = 0, 0 }), false},
		"stuck in done, and it ended":                  {api.PatrolStuckInDone, view(func(v *View) { v.Program = false }), true},
		"its shim is gone":                             {api.PatrolSessionDead, view(func(v *View) { v.Shim, v.Program, v.PID = false, false, 0 }), false},
		"its shim lives again":                         {api.PatrolSessionDead, view(), true},
		"its program is gone":                          {api.PatrolAgentDead, view(func(v *View) { v.Program = false }), false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.done, Settled(c.class, incident, c.v) != "")
			require.NotEmpty(t, Resolves(c.class))
		})
	}
}

func TestNothingIsSettledWithoutAnObservation(t *testing.T) {
	p := New()
	_, views := p.Look(began, []Observed{at(0)}, limits)
	require.Empty(t, Settled(api.PatrolStalled, Incident(at(0)), views[0]), "the first look shows no activity")
	_, views = p.Look(began.Add(tick), []Observed{at(0)}, limits)
	require.Empty(t, Settled(api.PatrolStalled, Incident(at(0)), views[0]))
	_, views = p.Look(began.Add(2*tick), []Observed{at(0, func(_ int, o *Observed) { o.Sample.Output = 9 })}, limits)
	require.NotEmpty(t, Settled(api.PatrolStalled, Incident(at(0)), views[0]))
}
