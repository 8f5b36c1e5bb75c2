package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

var (
	began  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limits = Limits{Stalled: 15 * time.Minute, Spinning: time.Hour, Model: time.Hour}
)

func after(minutes float64) time.Time {
	return began.Add(time.Duration(minutes * float64(time.Minute)))
}

func TestVerdicts(t *testing.T) {
	make := &Call{What: "command make", Since: after(1)}
	for name, c := range map[string]struct {
		at       float64 // minutes
		f        Facts
		class    api.PatrolClass
		waits    string
		evidence string
	}{
		"hung, with a spinner": {12 + 15, Facts{Task: true, Steps: true, Step: after(12), Output: after(11), Repeated: 12 * 64}, api.PatrolStalled, "",
			"no step for 15m0s; its output repeats: 768 bytes printed for 15m0s, and nothing new; no change of a file"},
		"hung a little less long":           {12 + 14.9, Facts{Task: true, Steps: true, Step: after(12), Repeated: 12 * 64}, "", "", ""},
		"hung without a task":               {15, Facts{}, api.PatrolStalled, "", "no output for 15m0s"},
		"at its prompt":                     {1000, Facts{Prompt: true, Repeated: 99}, "", "", ""},
		"a task that reads keys":            {15, Facts{Task: true, Prompt: true}, api.PatrolStalled, "", "no output"},
		"a slow model":                      {5, Facts{Task: true, Steps: true, Repeated: 640, Model: Model{Open: 1, Since: after(1)}}, "", "its model since 4m0s: 1 open request", ""},
		"a model slower than stalled_after": {60.9, Facts{Task: true, Steps: true, Repeated: 640, Model: Model{Open: 2, Since: after(1)}}, "", "its model since 59m54s: 2 open requests", ""},
		"a hung model": {61, Facts{Task: true, Steps: true, Model: Model{Open: 1, Since: after(1)}}, api.PatrolStalled, "its model since 1h0m0s: 1 open request",
			"it waits for its model since 1h0m0s: 1 open request, and no part of an answer came; no step for 1h1m0s"},
		"a hung model, asked at a prompt":   {61, Facts{Prompt: true, Model: Model{Open: 1, Since: after(1)}}, api.PatrolStalled, "its model since 1h0m0s: 1 open request", ""},
		"a model that answers all the time": {59, Facts{Task: true, Repeated: 9, Model: Model{Open: 1, Since: after(58), Heard: after(58)}}, "", "its model since 1m0s: 1 open request", ""},
		"a long compile":                    {90, Facts{Task: true, Steps: true, Step: after(1), NewStep: after(1), Busy: after(89), CPU: 89 * time.Minute, Call: make, Calls: 1}, "", "the call command make, open since 1h29m0s, which computes", ""},
		"a call that never ends computing":  {241, Facts{Task: true, Steps: true, Step: after(1), NewStep: after(1), Busy: after(240), CPU: 239 * time.Minute, Call: make, Calls: 1}, api.PatrolSpinning, "the call command make, open since 4h0m0s, which computes", "the call command make, open since 4h0m0s"},
		"a hung tool": {16, Facts{Task: true, Steps: true, Step: after(1), NewStep: after(1), Call: make, Calls: 2}, api.PatrolStalled, "the call command make, open since 15m0s (the last of 2)",
			"the call command make, open since 15m0s (the last of 2); no step for 15m0s; no output for 15m0s"},
		"computes only":                            {60, Facts{Task: true, Busy: after(59), CPU: 50 * time.Minute}, api.PatrolSpinning, "", "it used 50m0s of processor time and printed 0 bytes meanwhile"},
		"computes at a prompt":                     {60, Facts{Prompt: true, Busy: after(59), CPU: 50 * time.Minute}, api.PatrolSpinning, "", ""},
		"a TUI that redraws":                       {60, Facts{Prompt: true, Output: after(59), Repeated: 9}, "", "", ""},
		"the same calls again":                     {61, Facts{Task: true, Steps: true, Step: after(60), NewStep: after(1)}, api.PatrolSpinning, "", "it began no call that it had not made before for 1h0m0s"},
		"reads much, all of it new":                {61, Facts{Task: true, Steps: true, Step: after(60), NewStep: after(60)}, "", "", ""},
		"has its answer after an hour":             {61, Facts{Task: true, Output: after(60.9), Waited: after(60)}, "", "", ""},
		"was asked for an hour":                    {65, Facts{Task: true, Step: after(1), Waited: after(60)}, "", "", ""},
		"hangs after its answer":                   {75, Facts{Task: true, Step: after(1), Waited: after(60)}, api.PatrolStalled, "", "it waited for a person or another agent until 15m0s ago; no output for 1h14m0s"},
		"was asked while its model did not answer": {119, Facts{Task: true, Waited: after(60), Model: Model{Open: 1, Since: after(1)}}, "", "its model since 1h58m0s: 1 open request", ""},
		"prints what is new":                       {60, Facts{Task: true, Output: after(59)}, api.PatrolSpinning, "", "it changed no file for 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			c.f.Seen = began
			v := Judge(after(c.at), c.f, limits)
			require.Equal(t, c.class, v.Class)
			require.Equal(t, c.waits, v.Waits)
			require.Equal(t, c.class != "", len(v.Evidence) > 0)
			require.Contains(t, strings.Join(v.Evidence, "; "), c.evidence)
			require.Empty(t, Judge(after(c.at), c.f, Limits{}).Class, "limits of 0 find nothing")
		})
	}
}

func TestTheLimitForModelsIsNotLessThanTheOther(t *testing.T) {
	require.Equal(t, time.Hour, limits.Waiting())
	require.Equal(t, 2*time.Hour, Limits{Stalled: 2 * time.Hour, Model: time.Hour}.Waiting())
	require.Zero(t, Limits{Stalled: time.Hour}.Waiting())
	require.Zero(t, Limits{Model: time.Hour}.Waiting())
}

func TestWhatWaitedIsStalledSinceThen(t *testing.T) {
	f := Facts{Task: true, Seen: began, Step: after(1), Waited: after(60)}
	require.Equal(t, after(60), Judge(after(75), f, limits).Since)
	f.Step = after(70)
	require.Equal(t, after(70), Judge(after(90), f, limits).Since)
	require.Equal(t, after(70), f.Progress(), "waiting is no progress")
}

func TestNothingIsOverWithoutALimit(t *testing.T) {
	var r Recovery
	for n := range 100 {
		r.Progress(after(float64(n)), 0)
		require.False(t, r.Over(0))
		require.False(t, r.Over(-1))
	}
}
