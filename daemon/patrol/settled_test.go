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
		v := View{Observed: at(0), Quiet: time.Minute, Unchanged: time.Minute}
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
		"stalled, and it did something once":           {api.PatrolStalled, view(func(v *View) { v.Quiet = time.Second }), false},
		"stalled, and it moves again":                  {api.PatrolStalled, view(func(v *View) { v.Moving = true }), true},
		"stalled, and not observed":                    {api.PatrolStalled, view(func(v *View) { v.Moving, v.Err = true, errors.New("no answer") }), false},
		"stalled, another program":                     {api.PatrolStalled, view(func(v *View) { v.PID++ }), true},
		"stalled, another agent of that name":          {api.PatrolStalled, view(func(v *View) { v.Created = v.Created.Add(1) }), true},
		"stalled, its process number was given again":  {api.PatrolStalled, view(func(v *View) { v.Began++ }), true},
		"stalled, another shim":                        {api.PatrolStalled, view(func(v *View) { v.Generation++ }), true},
		"stalled, and stopped":                         {api.PatrolStalled, view(func(v *View) { v.Status, v.Shim, v.Program = api.StatusStopped, false, false }), true},
		"spinning, and it only printed":                {api.PatrolSpinning, view(func(v *View) { v.Moving = true }), false},
		"spinning, and it wrote once":                  {api.PatrolSpinning, view(func(v *View) { v.Unchanged = 0 }), false},
		"spinning, and it changes things again":        {api.PatrolSpinning, view(func(v *View) { v.Changing = true }), true},
		"stuck in done, and it wrote":                  {api.PatrolStuckInDone, view(func(v *View) { v.Moving, v.Changing = true, true }), false},
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

func TestOnlySustainedProgressSettles(t *testing.T) {
	p := New()
	settled := func(n, writes int) bool {
		_, views := p.Look(began.Add(time.Duration(n)*tick), []Observed{at(0, func(_ int, o *Observed) { o.Sample.Writes = int64(writes) })}, limits)
		return Settled(api.PatrolStalled, Incident(at(0)), views[0]) != ""
	}
	n := 0
	for ; n < 395; n++ {
		require.False(t, settled(n, n/100), "it writes every 16 minutes")
	}
	require.False(t, settled(n, n))
	began := n
	for ; !settled(n, n); n++ {
		require.Less(t, n, began+40)
	}
	require.GreaterOrEqual(t, time.Duration(n-began)*tick, limits.Stalled/3-tick)
}
