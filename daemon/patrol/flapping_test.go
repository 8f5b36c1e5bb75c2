package patrol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/patrol/cases"
)

// guard is a patrol with its cases, as polisd has them.
type guard struct {
	p        *Patrol
	reported Reported
	book     *cases.Book
	now      time.Time
	// news is how many findings were reported, opened how often a case was opened that was not open.
	news, opened int
}

func newGuard() *guard {
	g := &guard{p: New()}
	g.book = &cases.Book{Now: func() time.Time { return g.now }, Save: func(cases.Kept) error { return nil }}
	return g
}

func (g *guard) open() int { return len(g.book.List("", false)) }

// cycle is one of the patrol.
func (g *guard) cycle(t require.TestingT, now time.Time, o Observed, lim Limits) {
	g.now = now
	suspects, views := g.p.Look(now, []Observed{o}, lim)
	var found []api.PatrolFinding
	for _, s := range suspects {
		f, ok := Finding(now, s, Waits{}, lim, api.OnStallReport)
		if !ok {
			continue
		}
		found = append(found, f)
		act, news := g.reported.Begin(Incident(s.Observed), &f, false)
		if !act || !news {
			continue
		}
		g.news++
		Conclude(&f, nil)
		if c, ok := Case(s, f); ok {
			_, fresh, err := g.book.Open(c)
			require.NoError(t, err)
			if fresh {
				g.opened++
			}
		}
	}
	g.reported.Forget(found, views)
	for _, e := range EndedCases(g.book.List("", false), now, found, views) {
		_, err := g.book.Settle(func(c api.Case) bool { return c.ID == e.ID }, e.How)
		require.NoError(t, err)
	}
}

// rhythm is something that happens several times, a little apart, and again after a rest.
type rhythm struct {
	rest, apart time.Duration
	times       int // 0: never
}

func (r rhythm) every() time.Duration { return r.rest + r.burst() }
func (r rhythm) burst() time.Duration { return r.apart * time.Duration(r.times-1) }

// last is when it happened last until d, and how often it did; 0 if it has not.
func (r rhythm) last(d time.Duration) (at time.Duration, n int) {
	d += r.burst()
	if r.times == 0 || d < r.every() {
		return 0, 0
	}
	rounds := int(d / r.every())
	in := min(int((d%r.every())/max(r.apart, 1)), r.times-1)
	return time.Duration(rounds)*r.every() + time.Duration(in)*r.apart - r.burst(), (rounds-1)*r.times + in + 1
}

// TestNoFlapping: an agent that does the same in bursts for ever, however seldom, has one case at most, and that stays
// open. A burst is shorter than what counts as a recovery.
func TestNoFlapping(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// It moves all the time and changes something every now and then, or does both every now and then. A rest is
		// clearly below or above the limits, whenever the patrol looks.
		moves, most := rhythm{rest: time.Minute, times: 1}, limits.Spinning/3
		if rapid.Bool().Draw(rt, "hangs") {
			moves, most = rhythm{}, limits.Stalled/3
		}
		rest := rapid.SampledFrom([]int{5, 10, 17, 25, 45, 62, 90, 150, 240}).Draw(rt, "minutes of rest")
		change := rhythm{rest: time.Duration(rest) * time.Minute, times: rapid.IntRange(1, 6).Draw(rt, "times")}
		if change.times > 1 {
			change.apart = most * 8 / 10 / time.Duration(change.times-1)
		}
		what := rapid.IntRange(0, 2).Draw(rt, "what changes")
		shim := rapid.Bool().Draw(rt, "its shim reports")
		spins := rapid.Bool().Draw(rt, "a spinner")
		tick := rapid.SampledFrom([]time.Duration{10 * time.Second, 37 * time.Second, time.Minute}).Draw(rt, "tick")
		g := newGuard()
		for d := time.Duration(0); d < 24*time.Hour; d += tick {
			o := at(0)
			changed, n := change.last(d)
			moved, m := moves.last(d)
			switch what {
			case 0:
				o.Sample.Writes = int64(n)
			case 1:
				o.Sample.Refs = uint64(n)
			}
			if shim || what == 2 {
				o.Progress = &wire.Progress{Steps: true}
				if m > 0 {
					o.Progress.Step = began.Add(moved)
				}
				if what == 2 && n > 0 {
					o.Progress.NewCall = began.Add(changed)
					o.Progress.Step = began.Add(max(changed, moved))
				}
				if spins {
					o.Progress.Printed = int64(d / time.Second)
				}
			} else {
				o.Sample.Output = int64(m)
			}
			g.cycle(rt, began.Add(d), o, limits)
		}
		if g.opened > 1 || g.news > 1 || g.opened != g.open() {
			rt.Fatalf("%d findings were reported, and a case was opened %d times; %d is open", g.news, g.opened, g.open())
		}
	})
}

// TestWhatIsFoundIsForgottenByItsOwnLimitOnly: a limit of 0 lets no agent recover.
func TestWhatIsFoundIsForgottenByItsOwnLimitOnly(t *testing.T) {
	for name, lim := range map[string]Limits{"nothing spins": limits, "nothing stalls": limits} {
		t.Run(name, func(t *testing.T) {
			of := lim.Stalled
			if name == "nothing spins" {
				lim.Spinning = 0
			} else {
				of, lim.Stalled = lim.Spinning, 0
			}
			g := newGuard()
			writes := rhythm{rest: of + 5*time.Minute, apart: tick, times: 5}
			for d := time.Duration(0); d < 10*writes.every(); d += tick {
				o := at(0)
				_, n := writes.last(d)
				o.Sample.Writes = int64(n)
				if name != "nothing spins" {
					o.Sample.Output = int64(d / tick)
				}
				g.cycle(t, began.Add(d), o, lim)
			}
			require.Equal(t, []int{1, 1, 1}, []int{g.news, g.opened, g.open()})
		})
	}
}
