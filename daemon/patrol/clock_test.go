package patrol

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// jump is a look at a time of the wall clock, which jumps from a time to another one.
type jump struct {
	now, from, to time.Time
	done          bool
}

// jumping shows a patrol an agent for so long before and after the wall clock jumps. It returns how long after the jump
// it was first a suspect, and as what; -1: it was none.
func jumping(t *testing.T, before, by, after time.Duration, change func(j jump, o *Observed)) (time.Duration, api.PatrolClass) {
	t.Helper()
	p := New()
	var apart time.Duration // of the two clocks, between this look and the last
	p.elapsed = func(from, to time.Time) time.Duration { return to.Sub(from) - apart }
	from := began.Add(before)
	to := from.Add(by)
	look := func(now time.Time, jumped bool) []Suspect {
		o := at(0)
		change(jump{now, from, to, jumped}, &o)
		s, views := p.Look(now, []Observed{o}, limits)
		require.Len(t, views, 1)
		return s
	}
	for d := time.Duration(0); d < before; d += tick {
		require.Empty(t, look(began.Add(d), false), "before the jump")
	}
	apart = by
	for d := time.Duration(0); d <= after; d += tick {
		if s := look(to.Add(d), true); len(s) > 0 {
			return d, s[0].Class
		}
		apart = 0
	}
	return -1, ""
}

func TestAClockThatJumpsMakesNoSuspect(t *testing.T) {
	// since is a time by the wall clock of then: when the agent did something last, if it does so every so often.
	since := func(j jump, every time.Duration) time.Time {
		if j.done {
			if d := j.now.Sub(j.to); d >= every {
				return j.to.Add(d.Truncate(every))
			}
			return j.from
		}
		return began.Add(j.now.Sub(began).Truncate(every))
	}
	const before = 14 * time.Minute
	for name, by := range map[string]time.Duration{"suspended": 8 * time.Hour, "set to what it is": 10 * 365 * 24 * time.Hour, "set back": -24 * time.Hour, "set back much": -10 * 365 * 24 * time.Hour, "by seconds": 3 * time.Second} {
		for what, f := range map[string]func(j jump, o *Observed){
			"takes steps": func(j jump, o *Observed) {
				at := since(j, 5*time.Minute)
				o.Progress = &wire.Progress{Steps: true, Step: at, NewCall: at}
			},
			"waits for its model": func(j jump, o *Observed) {
				at := since(j, 50*time.Minute)
				o.Progress = &wire.Progress{Requests: 1, WaitsSince: at, Heard: at}
			},
			"spins less long": func(j jump, o *Observed) {
				o.Progress = &wire.Progress{Steps: true, Step: since(j, time.Minute), NewCall: since(j, 40*time.Minute)}
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				d, class := jumping(t, before, by, 3*time.Hour, f)
				require.Equal(t, time.Duration(-1), d, class)
			})
		}
	}
}

// TestAClockThatJumpsSavesNoSuspect: what hangs is found as long after the jump as after polisd has begun, also if the
// times that its shim reports are in the future.
func TestAClockThatJumpsSavesNoSuspect(t *testing.T) {
	for name, by := range map[string]time.Duration{"suspended": 8 * time.Hour, "set back": -24 * time.Hour, "set back a little": -20 * time.Minute} {
		for what, c := range map[string]struct {
			after time.Duration
			class api.PatrolClass
			f     func(j jump, o *Observed)
		}{
			"hangs": {limits.Stalled, api.PatrolStalled, func(j jump, o *Observed) {
				o.Progress = &wire.Progress{Steps: true, Step: j.from, NewCall: j.from, New: j.from, Heard: j.from, Calls: 1, Call: "make", CallSince: j.from}
			}},
			"hangs, of an earlier shim": {limits.Stalled, api.PatrolStalled, func(jump, *Observed) {}},
			"waits for its model": {limits.Model, api.PatrolStalled, func(j jump, o *Observed) {
				o.Progress = &wire.Progress{Requests: 1, WaitsSince: j.from}
			}},
			"spins": {limits.Spinning, api.PatrolSpinning, func(j jump, o *Observed) {
				o.Progress = &wire.Progress{Steps: true, Step: j.now.Add(-1), NewCall: j.from}
			}},
			"has ended its task": {limits.Done, api.PatrolStuckInDone, func(j jump, o *Observed) {
				if j.done {
					o.Ended, o.EndedAt = api.EndDone, j.from.Add(-time.Second)
				}
			}},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				d, class := jumping(t, 10*time.Minute, by, 3*time.Hour, c.f)
				require.Equal(t, c.class, class)
				require.Equal(t, c.after, d)
			})
		}
	}
}

func TestAJumpEndsNoCount(t *testing.T) {
	p := New()
	p.elapsed = func(time.Time, time.Time) time.Duration { return 0 }
	gone := at(0, func(_ int, o *Observed) { o.Shim = false })
	p.Look(began, []Observed{gone}, limits)
	s, _ := p.Look(began.Add(time.Hour), []Observed{gone}, limits)
	require.Len(t, s, 1, "two looks in which its shim is gone are two")
	require.Equal(t, began, s[0].Since)
}

func TestAnAgentThatIsNotObservedAtTheJumpComputedNothingThen(t *testing.T) {
	computed := func(d time.Duration) Observed {
		return at(0, func(_ int, o *Observed) { o.Sample.CPU = 10*time.Hour + d/20; o.Sample.Output = 1 << 30 })
	}
	p := New()
	p.Look(began, []Observed{computed(0)}, limits)
	p.elapsed = func(time.Time, time.Time) time.Duration { return 0 }
	p.Look(began.Add(time.Hour), []Observed{at(0, func(_ int, o *Observed) { o.Err = errors.New("no answer") })}, limits)
	p.elapsed = func(from, to time.Time) time.Duration { return to.Sub(from) }
	for d := time.Hour; d < time.Hour+limits.Stalled; d += tick {
		s, views := p.Look(began.Add(d+1), []Observed{computed(d - time.Hour)}, limits)
		require.Empty(t, s)
		require.Equal(t, d-time.Hour+1, views[0].Quiet, "it did nothing since the jump")
	}
	s, _ := p.Look(began.Add(time.Hour+limits.Stalled), []Observed{computed(limits.Stalled)}, limits)
	require.Len(t, s, 1)
}

func TestASuspectIsNotConfirmedAfterAJump(t *testing.T) {
	p := New()
	end := began.Add(limits.Stalled)
	p.Look(began, []Observed{at(0)}, limits)
	s, _ := p.Look(end, []Observed{at(0)}, limits)
	require.Len(t, s, 1)
	p.elapsed = func(time.Time, time.Time) time.Duration { return time.Second }
	_, ok := p.Confirm(end.Add(2*time.Second), s[0], at(0), limits)
	require.True(t, ok)
	_, ok = p.Confirm(end.Add(time.Hour), s[0], at(0), limits)
	require.False(t, ok)
}

func TestTheClocksOfThisProcessAreCompared(t *testing.T) {
	p, now := New(), time.Now()
	require.False(t, p.stepped(now), "it has not looked yet")
	p.Look(now, nil, limits)
	require.False(t, p.stepped(now.Add(time.Hour)), "both clocks advanced")
	// Without its monotonic reading a time is as the wall clock says.
	require.False(t, p.stepped(now.Round(0).Add(time.Hour)))
}
