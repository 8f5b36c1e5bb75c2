package models

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api/wire"
)

const tokens = "day_tokens"

// shim is the side of an agent: its ledger, which outlives it, and what it was granted, which does not.
type shim struct {
	up, reached bool // reached: polisd can talk to it
	used, saved int64
	upto        int64
	spent       bool
	open        int64 // what the request that runs will use, 0: none runs
}

type world struct {
	limit  int64
	shims  map[string]*shim
	file   string
	now    time.Time
	levels []int
}

func (w *world) keeper() *BudgetKeeper {
	return &BudgetKeeper{File: w.file, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now },
		Limits: func(string) map[string]int64 { return map[string]int64{tokens: w.limit} },
		Agents: func(string) (out []BudgetAgent) {
			for dir, s := range w.shims {
				out = append(out, BudgetAgent{Dir: dir, Up: s.up})
			}
			return out
		},
		Alive: func(_ context.Context, dir string) bool { return w.shims[dir].up },
		Used: func(dir, _ string, open bool) (wire.ShareUse, error) {
			s := w.shims[dir]
			n := s.saved
			if open {
				n = s.used
			}
			return wire.ShareUse{Tokens: n}, nil
		},
		Send: func(_ context.Context, dir string, r wire.Shares) (wire.ShareUse, error) {
			s := w.shims[dir]
			if !s.up || !s.reached {
				return wire.ShareUse{}, errors.New("no answer")
			}
			for _, x := range r.Shares {
				s.upto, s.spent = x.Upto, x.Spent
			}
			return wire.ShareUse{Tokens: s.used}, nil
		},
		Reached: func(_, _, _ string, _, _ int64, level int) { w.levels = append(w.levels, level) }}
}

func newWorld(dir string, limit int64, names ...string) *world {
	w := &world{limit: limit, shims: map[string]*shim{}, file: filepath.Join(dir, "shared.json"), now: time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)}
	for _, n := range names {
		w.shims[n] = &shim{up: true, reached: true}
	}
	return w
}

// Feature: multi-agent-workspaces, Property: the agents of a role use no more of a shared budget than it has, but by the request of each that runs
func TestASharedBudgetIsNotExceeded(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"/a", "/b", "/c"}
		w := newWorld(dir, rapid.Int64Range(1, 3000).Draw(t, "limit"), names...)
		_ = os.Remove(w.file)
		k := w.keeper()
		const most = 200
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "agent")
			s := w.shims[name]
			switch rapid.SampledFrom([]string{"request", "request", "request", "answer", "answer", "kill", "start", "lost", "found", "save", "polisd", "torn"}).Draw(t, "step") {
			case "request":
				if !s.up || s.open > 0 {
					continue
				}
				if s.used >= s.upto && !s.spent {
					_ = k.Grant(t.Context(), name, "r") // an agent that gets none asks again
				}
				if s.used < s.upto && !s.spent {
					s.open = rapid.Int64Range(1, most).Draw(t, "tokens")
				}
			case "answer":
				s.used, s.open = s.used+s.open, 0
			case "kill": // what ran counts
				s.used, s.open = s.used+s.open, 0
				s.up, s.upto, s.spent, s.saved = false, 0, false, s.used
			case "start":
				if !s.up {
					s.up, s.reached = true, true
				}
			case "lost":
				s.reached = false
			case "found":
				s.reached = true
			case "save":
				s.saved = s.used
			case "polisd":
				k = w.keeper()
			case "torn":
				if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
					require.NoError(t, os.WriteFile(w.file, []byte("torn"), 0o600))
					for _, x := range w.shims { // else polisd waits for it
						x.reached = true
					}
					k = w.keeper()
				}
			}
			var sum int64
			for _, x := range w.shims {
				sum += x.used
			}
			// Each agent exceeds what it was granted by one request at most, when it was used up.
			require.LessOrEqual(t, sum, w.limit+int64(len(names))*most)
		}
		// What is left reaches an agent that asks, when all can be reached.
		var sum int64
		for _, x := range w.shims {
			x.used, x.open, x.reached = x.used+x.open, 0, true
			x.saved = x.used
			sum += x.used
		}
		s := w.shims["/a"]
		s.up = true
		require.NoError(t, k.Grant(t.Context(), "/a", "r"))
		require.Equal(t, sum >= w.limit, s.spent, "used %d of %d", sum, w.limit)
		if !s.spent {
			require.Greater(t, s.upto, s.used)
		}
	})
}

// Feature: multi-agent-workspaces, Property: grants are conserved
func TestGrantsAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := account{limit: rapid.Int64Range(1, 1_000_000).Draw(t, "limit"), members: map[string]member{}}
		names := []string{"a", "b", "c", "d"}
		for _, n := range names {
			a.members[n] = member{}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.SampledFrom(names).Draw(t, "agent")
			m := a.members[n]
			if rapid.Bool().Draw(t, "recall") {
				for other, to := range a.recall(n, rapid.Bool().Draw(t, "all")) {
					o := a.members[other]
					require.GreaterOrEqual(t, to, o.used)
					require.Less(t, to, o.grant)
					a.members[other] = member{o.used, to}
				}
			}
			if a.free(n) > 0 {
				before := m
				m.grant = a.part(n, 3)
				require.Greater(t, m.grant, m.used)
				require.GreaterOrEqual(t, m.grant, before.grant, "nothing is taken away")
			}
			a.members[n] = member{m.used + rapid.Int64Range(0, m.slack()).Draw(t, "use"), m.grant}
			var held int64
			for _, x := range a.members {
				held += max(x.used, x.grant)
			}
			require.LessOrEqual(t, held, a.limit)
		}
	})
}

// An answer can use more than was granted: half of what the others have is then not enough.
func TestAllThatOthersHaveIsReturnedWhenHalfIsNotEnough(t *testing.T) {
	w := newWorld(t.TempDir(), 135, "/a", "/b", "/c")
	k := w.keeper()
	a, b := w.shims["/a"], w.shims["/b"]
	require.NoError(t, k.Grant(t.Context(), "/a", "r"))
	require.NoError(t, k.Grant(t.Context(), "/b", "r"))
	require.Equal(t, int64(18), b.upto)
	a.used, a.saved, b.used, b.saved = 129, 129, 2, 2
	require.NoError(t, k.Grant(t.Context(), "/a", "r"))
	require.Equal(t, int64(130), a.upto, "4 are left")
	require.Equal(t, int64(2), b.upto, "it asks for its next part")
	require.NoError(t, k.Grant(t.Context(), "/b", "r"))
	require.Equal(t, int64(3), b.upto)
	require.Equal(t, int64(130), a.upto)
}

func TestGrantsSurviveAndAreReturned(t *testing.T) {
	w := newWorld(t.TempDir(), 1000, "/a", "/b")
	k := w.keeper()
	ctx := t.Context()
	a, b := w.shims["/a"], w.shims["/b"]
	require.NoError(t, k.Grant(ctx, "/a", "r"))
	require.Equal(t, int64(250), a.upto)
	require.NoError(t, k.Grant(ctx, "/b", "r"))
	require.Equal(t, int64(187), b.upto, "parts become smaller")
	uses, err := k.Uses(ctx, []string{"r"})
	require.NoError(t, err)
	require.Equal(t, []BudgetUse{{Role: "r", Bound: tokens, Limit: 1000, Granted: 437}}, uses)

	// Another polisd knows them; an agent that cannot be reached keeps its part.
	k = w.keeper()
	a.reached = false
	b.used, b.saved = 750, 750
	require.ErrorContains(t, k.Grant(ctx, "/b", "r"), "agents that do not answer")
	require.Equal(t, int64(187), b.upto)
	require.False(t, b.spent)
	a.reached = true
	require.NoError(t, k.Grant(ctx, "/b", "r"))
	require.Equal(t, int64(125), a.upto, "half of it is returned")
	require.Greater(t, b.upto, int64(750))
	require.LessOrEqual(t, b.upto+125, int64(1000))

	// The part of a shim that has died is free, with what its ledger has.
	a.up, a.used, a.saved, a.upto = false, 100, 90, 0
	b.used, b.saved = 900, 900
	require.NoError(t, k.Grant(ctx, "/b", "r"))
	require.True(t, b.spent, "900 and 100")
	require.Equal(t, []int{100}, w.levels)
	require.NoError(t, k.Raise(ctx, "r", tokens, "2026-03-02", 1200))
	require.NoError(t, k.Raise(ctx, "r", tokens, "2026-03-01", 9000), "a raise is of one day")
	require.NoError(t, k.Raise(ctx, "r", "other", "2026-03-02", 9000))
	require.False(t, b.spent)
	require.NoError(t, w.keeper().Grant(ctx, "/b", "r"))
	require.Equal(t, int64(1000), b.upto, "half of what is left: it is the only one")
	require.Error(t, k.Grant(ctx, "/other", "r"), "it does not have the role")

	// The next day begins with nothing used.
	w.now = w.now.AddDate(0, 0, 1)
	a.saved, a.used, b.saved, b.used = 0, 0, 0, 0
	require.NoError(t, k.Grant(ctx, "/b", "r"))
	require.Equal(t, int64(500), b.upto)
}
