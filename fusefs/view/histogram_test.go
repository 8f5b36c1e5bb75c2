package view

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/fusefs"
)

func TestADurationCountsInTheFirstBucketThatBoundsIt(t *testing.T) {
	require.True(t, slices.IsSorted(Bounds[:]))
	for _, tc := range []struct {
		name   string
		nanos  int64
		bucket int
	}{
		{"nothing", 0, 0}, {"a clock that went back", -5, 0}, {"a bound is inclusive", 1e3, 0}, {"above it", 1e3 + 1, 1},
		{"the seed's bound", 10e6, 7}, {"the last bound", 10e9, Buckets - 2}, {"above all", 10e9 + 1, Buckets - 1}, {"the greatest", math.MaxInt64, Buckets - 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h Histogram
			h.Observe(tc.nanos)
			var want [Buckets]int64
			want[tc.bucket] = 1
			require.Equal(t, Times{Counts: want, Sum: max(tc.nanos, 0)}, h.Times())
		})
	}
}

// TestCountersContinueFromWhatWasSet: a guard that continues from the counters of another one counts
// as if it had been that one, with the formulas of seed 002: each operation counts regardless of its
// result, and the average is (old*9 + sample) / 10.
func TestCountersContinueFromWhatWasSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, first, second := &Guard{}, &Guard{}, &Guard{}
		count := func(gs ...*Guard) {
			for range rapid.IntRange(0, 20).Draw(t, "operations") {
				write, nanos := rapid.Bool().Draw(t, "write"), rapid.Int64Range(0, 1e10).Draw(t, "nanos")
				old := one.Stats()
				for _, g := range gs {
					g.Count(fusefs.OpOpenRead, write, 0, nanos)
				}
				now := one.Stats()
				if write {
					require.Equal(t, (old.AvgWriteLatency*9+nanos)/10, now.AvgWriteLatency)
					require.Equal(t, old.WriteCount+1, now.WriteCount)
				} else {
					require.Equal(t, (old.AvgReadLatency*9+nanos)/10, now.AvgReadLatency)
					require.Equal(t, old.ReadCount+1, now.ReadCount)
				}
			}
		}
		count(one, first)
		second.SetStats(first.Stats())
		require.Equal(t, first.Stats(), second.Stats())
		count(one, second)
		require.Equal(t, one.Stats(), second.Stats())
		total := int64(0)
		for _, n := range second.Stats().ReadTimes.Counts {
			total += n
		}
		require.Equal(t, second.Stats().ReadCount, total)
	})
}
