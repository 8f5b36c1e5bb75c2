package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api/setting"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/usage"
)

func TestTheBoundThatIsUsedMostDecides(t *testing.T) {
	used := Used{Task: ledger.Counts{Tokens: usage.Tokens{Input: 50, Output: 10, CacheRead: 20}, Micros: 1_500_000},
		Day: ledger.Counts{Tokens: usage.Tokens{Input: 800}, Micros: 9_000_000}}
	for name, c := range map[string]struct {
		b       setting.ModelBudget
		task    bool
		percent int
		bound   string
	}{
		"none":            {setting.ModelBudget{RequestsPerMinute: 1}, true, 0, ""},
		"task's tokens":   {setting.ModelBudget{TaskTokens: 100, DayTokens: 10000}, true, 80, "task_tokens"},
		"no task":         {setting.ModelBudget{TaskTokens: 1, DayTokens: 1000}, false, 80, "day_tokens"},
		"task's money":    {setting.ModelBudget{TaskTokens: 100, TaskMoney: 1.5}, true, 100, "task_money"},
		"day's money":     {setting.ModelBudget{DayTokens: 1000, DayMoney: 10}, true, 90, "day_money"},
		"far beyond":      {setting.ModelBudget{TaskTokens: 1}, true, 1000, "task_tokens"},
		"just below":      {setting.ModelBudget{DayTokens: 801}, true, 99, "day_tokens"},
		"exactly reached": {setting.ModelBudget{DayTokens: 800}, true, 100, "day_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			st := Check(c.b, used, c.task)
			require.Equal(t, c.percent, st.Percent)
			require.Equal(t, c.bound, st.Bound)
			require.Equal(t, c.percent >= 100, st.Spent())
		})
	}
	require.Equal(t, "1.5000 of 2 of the task's money", Check(setting.ModelBudget{TaskMoney: 2}, used, true).Text)
}

// Feature: multi-agent-workspaces, Property: no minute has more requests than the limit
func TestNoMinuteHasMoreRequestsThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Rate
		now, limit := time.Unix(0, 0), rapid.IntRange(1, 5).Draw(t, "limit")
		var sent []time.Time
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30_000).Draw(t, "ms")) * time.Millisecond)
			wait, ok := r.Take(now, limit)
			if !ok {
				require.Positive(t, wait)
				require.LessOrEqual(t, wait, time.Minute)
				now = now.Add(wait)
				_, ok = r.Take(now, limit)
				require.True(t, ok, "after the wait it may be sent")
			}
			sent = append(sent, now)
			if n := len(sent); n > limit {
				require.GreaterOrEqual(t, now.Sub(sent[n-1-limit]), time.Minute)
			}
		}
		require.LessOrEqual(t, len(r.sent), limit)
	})
}

func cost(prices []setting.ModelPrice, model string, at time.Time, t usage.Tokens) int64 {
	n, _ := Cost(prices, model, at, t)
	return n
}

func TestPricesAreThoseOfTheDay(t *testing.T) {
	prices := []setting.ModelPrice{
		{Model: "big-*", Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		{Model: "big-*", From: "2026-06-01", Input: 2, Output: 10},
		{Model: "vendor/*", Input: 1, Output: 1},
	}
	tokens := usage.Tokens{Input: 1000, Output: 100, CacheRead: 10000, CacheWrite: 1000}
	day := func(s string) time.Time { d, _ := time.Parse(time.DateOnly, s); return d }
	require.Equal(t, int64(3000+1500+3000+3750), cost(prices, "big-1", day("2026-05-31"), tokens))
	require.Equal(t, int64(2000+1000), cost(prices, "big-1", day("2026-06-01"), tokens))
	require.Equal(t, int64(1100), cost(prices, "vendor/a/b", day("2026-06-01"), tokens))
	_, known := Cost(prices, "small", day("2026-06-01"), tokens)
	require.False(t, known, "no price is guessed")
	n, known := Cost([]setting.ModelPrice{{}}, "small", day("2026-06-01"), tokens)
	require.True(t, known, "a price of 0 is a price")
	require.Zero(t, n)
	require.True(t, Match(nil, "any"))
	require.True(t, Match([]string{"x", "vendor/*"}, "vendor/a"))
	require.False(t, Match([]string{"x", "["}, "a"))
}

func TestPricesAreChecked(t *testing.T) {
	require.NoError(t, CheckPrice(setting.ModelPrice{Model: "m-*", From: "2026-01-31", Input: 3}))
	for _, p := range []setting.ModelPrice{{Model: "["}, {Model: "m", From: "31.1.2026"}, {Model: "m", Input: -1}, {Model: "m", Output: 1e9}} {
		require.Error(t, CheckPrice(p))
	}
}

// FuzzPrice: a price that is accepted costs nothing less than 0, and more tokens do not cost less.
func FuzzPrice(f *testing.F) {
	f.Add("vendor/*", "2026-01-31", "vendor/m", 3.0, 15.0, int64(1000))
	f.Add("[a-", "x", "", -1.0, 1e300, int64(1)<<30)
	f.Fuzz(func(t *testing.T, pattern, from, model string, in, out float64, n int64) {
		p := setting.ModelPrice{Model: pattern, From: from, Input: in, Output: out, CacheRead: in}
		if CheckPrice(p) != nil {
			return
		}
		n = max(0, min(n, 1<<30))
		at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		less, known := Cost([]setting.ModelPrice{p}, model, at, usage.Tokens{Input: n / 2, Output: n / 2})
		more, same := Cost([]setting.ModelPrice{p}, model, at, usage.Tokens{Input: n, Output: n, CacheRead: n})
		if known != same || less < 0 || more < less || known && pattern != "" && !Match([]string{pattern}, model) {
			t.Fatal(p, model, less, more, known)
		}
	})
}
