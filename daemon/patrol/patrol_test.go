package patrol

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/patrol/verdict"
)

var (
	began  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limits = Limits{Limits: verdict.Limits{Stalled: 15 * time.Minute, Spinning: time.Hour, Model: time.Hour}, Done: time.Minute}
)

const tick = 10 * time.Second

// at is an agent that runs; change, if given, changes what is seen of it after n ticks.
func at(n int, change ...func(n int, o *Observed)) Observed {
	o := Observed{Agent: "a", Workspace: "w", Generation: 1, Status: api.StatusRunning, Shim: true, Program: true, PID: 7, Task: "a.1"}
	for _, f := range change {
		f(n, &o)
	}
	return o
}

// run shows the patrol one agent for so long, and returns the suspects of the last look.
func run(d time.Duration, change ...func(n int, o *Observed)) []Suspect {
	p := New()
	var out []Suspect
	for n := range int(d/tick) + 1 {
		out, _ = p.Look(began.Add(time.Duration(n)*tick), []Observed{at(n, change...)}, limits)
	}
	return out
}

func TestWhatWorksIsNoSuspect(t *testing.T) {
	for name, f := range map[string]func(n int, o *Observed){
		"prints":                            func(n int, o *Observed) { o.Sample.Output, o.Sample.Writes = int64(n), int64(n/100) },
		"compiles for hours":                func(n int, o *Observed) { o.Sample.CPU, o.Sample.Stored = time.Duration(n)*tick, uint64(n/60) },
		"writes through an open descriptor": func(n int, o *Observed) { o.Sample.Calls = uint64(n) * 20000 },
		"reads files":                       func(n int, o *Observed) { o.Sample.Reads = int64(n) },
		"receives":                          func(n int, o *Observed) { o.Sample.Net = uint64(n) * 1000 },
		"one file an hour":                  func(n int, o *Observed) { o.Sample.Writes, o.Sample.Reads = int64(n/350), int64(n/80) },
		"a person asks and reads":           func(n int, o *Observed) { o.Task, o.Sample.Output, o.Sample.Reads = "", int64(n), int64(n/50) },
		"is idle":                           func(_ int, o *Observed) { o.Status, o.Program, o.Task = api.StatusIdle, false, "" },
		"is stopped":                        func(_ int, o *Observed) { o.Status, o.Shim, o.Program = api.StatusStopped, false, false },
		"is being made":                     func(_ int, o *Observed) { o.Status, o.Shim, o.Program = api.StatusCreating, false, false },
		"cannot be observed":                func(_ int, o *Observed) { o.Err = errors.New("no answer") },
		"its counters begin again":          func(n int, o *Observed) { o.Sample.Writes = int64(n % 50) },
		"said done, and writes still":       func(n int, o *Observed) { o.Ended, o.EndedAt, o.Sample.Writes = api.EndDone, began, int64(n) },
		"its shim is missed at times":       func(n int, o *Observed) { o.Shim, o.Sample.Writes = n%2 == 0, int64(n) },
		"commits now and then":              func(n int, o *Observed) { o.Sample.Output, o.Sample.Refs = int64(n), uint64(n/100) },
		"opens and closes ports":            func(n int, o *Observed) { o.Sample.CPU, o.Sample.Ports = time.Duration(n)*tick, uint64(n/100%2) },
		"its name and process are others'":  func(n int, o *Observed) { o.Created = began.Add(time.Duration(n / 80)) },
		"its process number is given again": func(n int, o *Observed) { o.Began = uint64(n / 80) },
		"a new incarnation now and then":    func(n int, o *Observed) { o.Generation = uint64(n / 80) },
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, run(3*time.Hour, f)) })
	}
}

func TestSuspects(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // at which it is one; not one tick earlier
		class api.PatrolClass
		f     func(n int, o *Observed)
	}{
		"nothing happens": {limits.Stalled, api.PatrolStalled, func(int, *Observed) {}},
		"timers and keepalives": {limits.Stalled, api.PatrolStalled, func(n int, o *Observed) {
			o.Sample.CPU, o.Sample.Net = time.Duration(n)*50*time.Millisecond, uint64(n)*66
		}},
		"computes only":               {limits.Spinning, api.PatrolSpinning, func(n int, o *Observed) { o.Sample.CPU = time.Duration(n) * 9 * time.Second }},
		"prints only":                 {limits.Spinning, api.PatrolSpinning, func(n int, o *Observed) { o.Sample.Output = int64(n) * 80 }},
		"gets no answer of its model": {limits.Spinning, api.PatrolSpinning, func(n int, o *Observed) { o.Sample.Output, o.Sample.Net = int64(n), uint64(n)*9000 }},
		"said done":                   {limits.Done, api.PatrolStuckInDone, func(_ int, o *Observed) { o.Ended, o.EndedAt = api.EndDone, began }},
		"its task was cancelled":      {limits.Done, api.PatrolTaskClosed, func(_ int, o *Observed) { o.Ended, o.EndedAt = api.EndCancel, began }},
		"its shim is gone":            {tick, api.PatrolSessionDead, func(_ int, o *Observed) { o.Shim, o.Program = false, false }},
		"idle, its shim is gone":      {tick, api.PatrolSessionDead, func(_ int, o *Observed) { o.Status, o.Shim, o.Program = api.StatusIdle, false, false }},
		"its program has ended":       {tick, api.PatrolAgentDead, func(_ int, o *Observed) { o.Program = false }},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, run(c.after-tick, c.f), "too early")
			got := run(c.after, c.f)
			require.Len(t, got, 1)
			require.Equal(t, c.class, got[0].Class)
		})
	}
}

func TestADeadShimIsOneFindingHoweverLongItStays(t *testing.T) {
	gone := func(_ int, o *Observed) { o.Shim = false }
	require.Equal(t, run(tick, gone)[0].Since, run(time.Minute, gone)[0].Since)
}

func TestLimitsOfZeroFindNothing(t *testing.T) {
	p := New()
	for n := range 2000 {
		out, _ := p.Look(began.Add(time.Duration(n)*tick), []Observed{at(n)}, Limits{})
		require.Empty(t, out)
	}
}

func TestFindings(t *testing.T) {
	now := began.Add(2 * time.Hour)
	suspect := func(c api.PatrolClass, since time.Duration) Suspect {
		return Suspect{Observed: at(0), Class: c, Since: now.Add(-since), Evidence: []string{"it does nothing"}}
	}
	for name, c := range map[string]struct {
		s      Suspect
		w      Waits
		role   string
		action string // empty: no finding
	}{
		"stalled":                          {suspect(api.PatrolStalled, 16*time.Minute), Waits{}, "", api.OnStallReport},
		"stalled, as the role says":        {suspect(api.PatrolStalled, 16*time.Minute), Waits{}, api.OnStallNudge, api.OnStallNudge},
		"waits for a lease":                {suspect(api.PatrolStalled, 2*time.Hour), Waits{For: "a lease"}, api.OnStallStop, ""},
		"waits for its model":              {suspect(api.PatrolStalled, 59*time.Minute), Waits{Connections: 1}, api.OnStallStop, ""},
		"has a connection that seems dead": {suspect(api.PatrolStalled, time.Hour), Waits{Connections: 1}, api.OnStallStop, api.OnStallStop},
		"spinning":                         {suspect(api.PatrolSpinning, time.Hour), Waits{Connections: 1}, "", api.OnStallReport},
		"spinning in a debugger":           {suspect(api.PatrolSpinning, time.Hour), Waits{For: "a debugger"}, api.OnStallStop, ""},
		"done, and its program is stopped": {suspect(api.PatrolStuckInDone, time.Hour), Waits{For: "a debugger"}, "", ""},
		"done":                             {suspect(api.PatrolStuckInDone, time.Hour), Waits{}, api.OnStallNudge, "end-program"},
		"session dead":                     {suspect(api.PatrolSessionDead, 0), Waits{For: "a lease"}, "", "reconcile"},
	} {
		t.Run(name, func(t *testing.T) {
			f, ok := Finding(now, c.s, c.w, limits, c.role)
			require.Equal(t, c.action != "", ok)
			if ok {
				require.Equal(t, c.action, f.Action)
				require.NotEmpty(t, f.Evidence)
				require.NotEmpty(t, f.Next)
			}
		})
	}
}

func TestASuspectThatMovedIsNotTheSame(t *testing.T) {
	s := run(limits.Stalled, func(int, *Observed) {})[0]
	require.True(t, s.Same(at(0)))
	for name, f := range map[string]func(n int, o *Observed){
		"another generation": func(_ int, o *Observed) { o.Generation++ },
		"another program":    func(_ int, o *Observed) { o.PID++ },
		"another agent":      func(_ int, o *Observed) { o.Created = o.Created.Add(1) },
		"another process":    func(_ int, o *Observed) { o.Began++ },
		"another workspace":  func(_ int, o *Observed) { o.Workspace = "v" },
		"idle now":           func(_ int, o *Observed) { o.Status = api.StatusIdle },
		"printed":            func(_ int, o *Observed) { o.Sample.Output++ },
		"wrote":              func(_ int, o *Observed) { o.Sample.Writes++ },
		"not known":          func(_ int, o *Observed) { o.Err = errors.New("no answer") },
	} {
		t.Run(name, func(t *testing.T) { require.False(t, s.Same(at(0, f))) })
	}
}

func TestASpinningSuspectThatChangedSomethingIsNotTheSame(t *testing.T) {
	s := run(limits.Spinning, func(n int, o *Observed) { o.Sample.Output = int64(n) })[0]
	require.Equal(t, api.PatrolSpinning, s.Class)
	for name, f := range map[string]func(n int, o *Observed){
		"a file": func(_ int, o *Observed) { o.Sample.Writes++ },
		"a ref":  func(_ int, o *Observed) { o.Sample.Refs++ },
		"a port": func(_ int, o *Observed) { o.Sample.Ports++ },
	} {
		t.Run(name, func(t *testing.T) { require.False(t, s.Same(at(0, f))) })
	}
	require.True(t, s.Same(at(0, func(_ int, o *Observed) { o.Sample.Output = 1 << 20 })), "it prints on")
}

// reports has a shim report progress; times count in ticks.
func reports(f func(n int, now time.Time, p *wire.Progress)) func(n int, o *Observed) {
	return func(n int, o *Observed) {
		o.Progress = &wire.Progress{}
		f(n, began.Add(time.Duration(n)*tick), o.Progress)
	}
}

func TestWhatAShimReportsIsHeeded(t *testing.T) {
	spinner := reports(func(n int, _ time.Time, p *wire.Progress) { p.Printed = int64(n) * 64 })
	require.Equal(t, api.PatrolStalled, run(limits.Stalled, spinner)[0].Class, "its output repeats")
	require.Empty(t, run(2*time.Hour, reports(func(n int, now time.Time, p *wire.Progress) { p.Steps, p.Step, p.NewCall = true, now, now })))
	require.Empty(t, run(2*time.Hour, reports(func(int, time.Time, *wire.Progress) {}), func(_ int, o *Observed) { o.Task, o.Progress.Keys = "", true }), "at its prompt")
	slow := reports(func(_ int, _ time.Time, p *wire.Progress) { p.Requests, p.WaitsSince = 1, began })
	require.Empty(t, run(limits.Model-tick, slow))
	require.Equal(t, api.PatrolStalled, run(limits.Model, slow)[0].Class)
	housekeeping := func(n int, o *Observed) { // it starts a program twice a second to see whether there is a login
		o.Sample.Reads, o.Sample.Stored, o.Sample.Calls = int64(n), uint64(n), uint64(n)*quietIO
	}
	require.Len(t, run(limits.Stalled, reports(func(_ int, _ time.Time, p *wire.Progress) { p.Steps, p.Begins = true, true }), housekeeping), 1)
	require.Empty(t, run(limits.Stalled, reports(func(_ int, _ time.Time, p *wire.Progress) { p.Steps = true }), housekeeping), "it reports a call when that has ended (opencode)")
	little := func(n int, o *Observed) { housekeeping(n, o); o.Sample.Calls = uint64(n) * 80 }
	require.Len(t, run(limits.Stalled, reports(func(_ int, _ time.Time, p *wire.Progress) { p.Steps = true }), little), 1)
	require.Empty(t, run(limits.Stalled, reports(func(_ int, _ time.Time, p *wire.Progress) { p.Steps, p.Begins, p.Calls = true, true, 1 }), housekeeping), "the tool reads and stores")
}

func TestASuspectIsConfirmedByANewerObservation(t *testing.T) {
	p := New()
	end := began.Add(limits.Stalled)
	p.Look(began, []Observed{at(0)}, limits)
	s, _ := p.Look(end, []Observed{at(0)}, limits)
	require.Len(t, s, 1)
	_, ok := p.Confirm(end, s[0], at(0), limits)
	require.True(t, ok)
	_, ok = p.Confirm(end, s[0], at(0, func(_ int, o *Observed) { o.PID++ }), limits)
	require.False(t, ok, "another program")
	_, ok = p.Confirm(end.Add(1), s[0], at(0, func(_ int, o *Observed) { o.Sample.CPU = time.Minute }), limits)
	require.False(t, ok, "it has computed")
}

// TestTheVerdictDoesNotDependOnWhenThePatrolLooks: two patrols that look at the same agent at different times agree
// when they look at the same time.
func TestTheVerdictDoesNotDependOnWhenThePatrolLooks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := func(name string, little, much float64) float64 {
			return rapid.SampledFrom([]float64{0, little, much}).Draw(rt, name)
		}
		// In a second; half and three times what counts.
		cpu, net, calls := rate("cpu", 0.1, 0.6), rate("net", quietNet/120.0, quietNet/20.0), rate("calls", quietIO/120.0, quietIO/20.0)
		step := time.Duration(rapid.SampledFrom([]int{0, 30, 600, 1800}).Draw(rt, "step")) * time.Second
		prints := rapid.Bool().Draw(rt, "prints")
		end := time.Duration(rapid.IntRange(10, 150).Draw(rt, "minutes"))*time.Minute + 30*time.Second
		observed := func(d time.Duration) Observed {
			o := at(0)
			o.Sample.CPU, o.Sample.Net, o.Sample.Calls = time.Duration(cpu*float64(d)), uint64(net*d.Seconds()), uint64(calls*d.Seconds())
			o.Progress = &wire.Progress{}
			if prints {
				o.Progress.Printed = int64(d.Seconds())
				o.Sample.Calls += uint64(d.Seconds())
			}
			if step > 0 {
				o.Progress.Steps, o.Progress.Step = true, began.Add(d.Truncate(step))
			}
			return o
		}
		verdict := func(name string) (class api.PatrolClass) {
			p := New()
			p.Look(began, []Observed{observed(0)}, limits)
			for d := time.Duration(0); d < end; {
				d = min(end, d+time.Duration(rapid.IntRange(1, 3).Draw(rt, name))*20*time.Second)
				out, _ := p.Look(began.Add(d), []Observed{observed(d)}, limits)
				class = ""
				for _, s := range out {
					class = s.Class
				}
			}
			return class
		}
		if a, b := verdict("first"), verdict("second"); a != b {
			rt.Fatalf("%q and %q", a, b)
		}
	})
}

// Whatever happens, an agent that did anything within a limit is no suspect of that class, and one
// incarnation's silence is not another's.
func TestNoSuspectWithoutTheWholeTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, o, now := New(), at(0), began
		active, changed := now, now
		for range rapid.IntRange(1, 300).Draw(rt, "looks") {
			now = now.Add(rapid.SampledFrom([]time.Duration{tick, time.Minute, 7 * time.Minute}).Draw(rt, "step"))
			o.Err = nil
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			case 0:
				o.Generation++
				active, changed = now, now
			case 1:
				o.Sample.Writes++
				active, changed = now, now
			case 2:
				o.Sample.Output++
				active = now
			case 3:
				o.Err = errors.New("no answer")
			case 4:
				if rapid.Bool().Draw(rt, "patrol begins again") {
					p, active, changed = New(), now, now
				}
			}
			out, _ := p.Look(now, []Observed{o}, limits)
			for _, s := range out {
				if o.Err != nil {
					rt.Fatalf("%s found without an observation", s.Class)
				}
				if s.Class == api.PatrolStalled && now.Sub(active) < limits.Stalled {
					rt.Fatalf("stalled after %s", now.Sub(active))
				}
				if s.Class == api.PatrolSpinning && now.Sub(changed) < limits.Spinning {
					rt.Fatalf("spinning after %s", now.Sub(changed))
				}
			}
		}
	})
}
