package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// staying are agents whose work has ended; each of them is decided about as c says.
type staying struct {
	names    []string
	state    State
	c        api.Cleanup
	err      error
	measured int
}

func (s *staying) Ephemeral() []string { return s.names }

func (s *staying) WorkOver(_ context.Context, name string) (State, string, bool) {
	st := s.state
	st.Agent = name
	return st, "it is over", st.Final
}

func (s *staying) CleanUp(_ context.Context, was State, dryRun bool) (api.Cleanup, error) {
	s.measured++
	c := s.c
	c.Agent, c.Done = was.Agent, c.Action == api.CleanupRemove && !dryRun
	return c, s.err
}

// round is Rounds with a clock that the test moves.
type round struct {
	Rounds
	now    time.Time
	tips   Tips
	news   int
	called int
}

func newRound() *round {
	r := &round{now: time.Unix(0, 0)}
	r.Rounds = Rounds{Now: func() time.Time { return r.now }, Tips: func(context.Context, State) Tips { return r.tips },
		Decided: func(_ State, _ api.Cleanup, news bool) {
			r.called++
			if news {
				r.news++
			}
		}}
	return r
}

func TestAnAgentThatStaysIsMeasuredEverMoreRarely(t *testing.T) {
	r, as := newRound(), &staying{names: []string{"a"}, state: over(), c: api.Cleanup{Action: api.CleanupKeep}}
	var at []time.Duration
	for range 60 * 60 { // an hour, in seconds
		before := as.measured
		require.Len(t, r.Run(t.Context(), as, false, false), 1, "the last decision is listed meanwhile")
		if as.measured > before {
			at = append(at, r.now.Sub(time.Unix(0, 0)))
		}
		r.now = r.now.Add(time.Second)
	}
	m := time.Minute
	require.Equal(t, []time.Duration{0, m, 3 * m, 7 * m, 15 * m, 30 * m, 45 * m}, at)
	require.Equal(t, 1, r.news)
	require.Equal(t, len(at), r.called)
}

func TestWhatMeasuresAnAgentAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *round, as *staying)
		asked  bool
		at     int // how often it is measured
		news   int
	}{
		"nothing":                    {func(*round, *staying) {}, false, 1, 1},
		"a person asks":              {func(*round, *staying) {}, true, 2, 1},
		"its branch moved":           {func(r *round, _ *staying) { r.tips.Branch = "1" }, false, 2, 1},
		"the target moved":           {func(r *round, _ *staying) { r.tips.Target = "1" }, false, 2, 1},
		"its parent's moved":         {func(r *round, _ *staying) { r.tips.Parent = "1" }, false, 2, 1},
		"another task":               {func(_ *round, as *staying) { as.state.Task = "a.2" }, false, 2, 2},
		"another agent":              {func(_ *round, as *staying) { as.state.Created = time.Unix(9, 0) }, false, 2, 2},
		"another decision, in time":  {func(r *round, as *staying) { r.now, as.c.Action = r.now.Add(minBackoff), api.CleanupEscalate }, false, 2, 2},
		"another decision, too soon": {func(_ *round, as *staying) { as.c.Action = api.CleanupEscalate }, false, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, as := newRound(), &staying{names: []string{"a"}, state: over(), c: api.Cleanup{Action: api.CleanupKeep}}
			r.Run(t.Context(), as, false, false)
			c.change(r, as)
			r.Run(t.Context(), as, c.asked, false)
			require.Equal(t, c.at, as.measured)
			require.Equal(t, c.news, r.news)
		})
	}
}

func TestRoundsAreBounded(t *testing.T) {
	as := &staying{state: over(), c: api.Cleanup{Action: api.CleanupRemove}}
	for i := range 3 * maxRemoved {
		as.names = append(as.names, fmt.Sprint("a", i))
	}
	r := newRound()
	require.Len(t, r.Run(t.Context(), as, false, true), 3*maxRemoved, "a dry run lists all")
	require.Zero(t, r.called, "and decides nothing")
	as.measured = 0
	require.Len(t, r.Run(t.Context(), as, false, false), maxRemoved)
	require.Equal(t, maxRemoved, as.measured)

	ended, end := context.WithCancel(t.Context())
	end()
	require.Empty(t, r.Run(ended, as, false, false))
	as.c, as.err = api.Cleanup{}, errors.New("there is no such agent")
	require.Empty(t, r.Run(t.Context(), as, false, false), "an agent that is gone is no decision")
}

func TestACaseEndsWithItsWork(t *testing.T) {
	r, as := newRound(), &staying{names: []string{"a"}, state: over(), c: api.Cleanup{Workspace: "w", Task: "a.1", Action: api.CleanupEscalate}}
	now := r.Run(t.Context(), as, false, false)
	c := Case(as.state, now[0])
	require.False(t, r.Settles(c, now), "the work is still only there")
	require.True(t, r.Settles(c, nil))
	other := c
	other.Kind = "breaker"
	require.False(t, r.Settles(other, nil), "the case of another kind")
	as.state.Task = "a.2"
	require.True(t, r.Settles(c, r.Run(t.Context(), as, true, false)), "other work")
}

// answers are remotes that have the commits, or do not, or do not answer.
type answers map[string]error

var errNone = errors.New("it has none of them")

func (a answers) Names(context.Context) ([]string, error) {
	if err, fails := a[""]; fails {
		return nil, err
	}
	return []string{"fork", "origin"}, nil
}

func (a answers) DefaultHas(ctx context.Context, name string, _ []string) (bool, error) {
	if _, ok := ctx.Deadline(); !ok {
		return false, errors.New("the query is not bounded")
	}
	if errors.Is(a[name], errNone) {
		return false, nil
	}
	return a[name] == nil, a[name]
}

func TestRemotesAreQueriedForTheCommits(t *testing.T) {
	for name, c := range map[string]struct {
		remotes answers
		tips    []string
		want    Measured
	}{
		"one has them":         {answers{"fork": errNone}, []string{"1"}, Measured{Remote: "origin", Asked: []string{"fork", "origin"}}},
		"both have them":       {answers{}, []string{"1"}, Measured{Remote: "fork", Asked: []string{"fork", "origin"}}},
		"one does not answer":  {answers{"fork": errors.New("time"), "origin": errNone}, []string{"1"}, Measured{Asked: []string{"fork", "origin"}, Silent: []string{"fork"}}},
		"they cannot be read":  {answers{"": errors.New("damaged")}, []string{"1"}, Measured{}},
		"there are no commits": {answers{}, nil, Measured{}},
	} {
		t.Run(name, func(t *testing.T) {
			var m Measured
			m.Query(t.Context(), c.remotes, c.tips, slog.New(slog.DiscardHandler))
			require.Equal(t, c.want, m)
		})
	}
}
