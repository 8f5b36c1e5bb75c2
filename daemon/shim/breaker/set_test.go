package breaker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newSet(l api.Breakers) (s *Set, c *clock, trips *[]api.Trip) {
	c, trips = &clock{time.Unix(1_000_000, 0)}, &[]api.Trip{}
	s = &Set{Now: c.now, Trip: func(t api.Trip, _ []uint32) { *trips = append(*trips, t) }}
	s.SetLimits(l)
	return s, c, trips
}

func TestBreakersTripAboveTheirLimit(t *testing.T) {
	for name, c := range map[string]struct {
		limits api.Breakers
		do     func(s *Set, i int)
		trip   string
	}{
		"denials":                     {api.Breakers{Denials: 10}, func(s *Set, _ int) { s.Denied(1, "open of x", 7) }, api.BreakerDenials},
		"deletions of different":      {api.Breakers{Deletions: 10}, func(s *Set, i int) { s.Deleted(fmt.Sprint(i), 7) }, api.BreakerDeletions},
		"deletions of one":            {api.Breakers{Deletions: 10}, func(s *Set, _ int) { s.Deleted("a", 7) }, ""},
		"bytes":                       {api.Breakers{WrittenMB: 10}, func(s *Set, _ int) { s.Wrote(1 << 20) }, api.BreakerWritten},
		"new names":                   {api.Breakers{Names: 10}, func(s *Set, i int) { s.Resolved(fmt.Sprint(i)) }, api.BreakerNames},
		"one name":                    {api.Breakers{Names: 10}, func(s *Set, _ int) { s.Resolved("a") }, ""},
		"one command in a row":        {api.Breakers{Repeats: 10}, func(s *Set, _ int) { s.Ran("make") }, api.BreakerRepeats},
		"two commands in turns":       {api.Breakers{Repeats: 10}, func(s *Set, i int) { s.Ran(fmt.Sprint(i % 2)) }, ""},
		"what has no limit":           {api.Breakers{Names: 10}, func(s *Set, i int) { s.Deleted(fmt.Sprint(i), 7); s.Denied(1, "x", 7); s.Wrote(1 << 30); s.Ran("x") }, ""},
		"nothing, without any limits": {api.Breakers{}, func(s *Set, i int) { s.Deleted(fmt.Sprint(i), 7); s.Denied(1, "x", 7); s.Resolved(fmt.Sprint(i)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, trips := newSet(c.limits)
			for i := range 10 {
				c.do(s, i)
			}
			require.Empty(t, *trips, "the limit itself is allowed")
			for i := range 30 {
				c.do(s, i+10)
			}
			if c.trip == "" {
				require.Empty(t, *trips)
				return
			}
			require.Len(t, *trips, 1, "it is reported once")
			got := (*trips)[0]
			require.Equal(t, []any{c.trip, int64(11), int64(10)}, []any{got.Breaker, got.Count, got.Limit})
			require.LessOrEqual(t, len(got.Paths), shown)
			s.Reset()
			for i := range 11 {
				c.do(s, i+100)
			}
			require.Len(t, *trips, 2, "its count begins again")
		})
	}
}

func TestWhatIsOlderThanAMinuteDoesNotCount(t *testing.T) {
	s, c, trips := newSet(api.Breakers{Deletions: 10, WrittenMB: 10})
	for i := range 200 {
		s.Deleted(fmt.Sprint(i), 1)
		s.Wrote(1 << 20)
		c.at = c.at.Add(7 * time.Second)
	}
	require.Empty(t, *trips)
	left, ok := s.Left()
	require.True(t, ok)
	require.EqualValues(t, 2<<20, left)
	c.at = c.at.Add(time.Hour)
	left, _ = s.Left()
	require.EqualValues(t, 10<<20, left)
}

func TestConcurrentCountsTripOnce(t *testing.T) {
	var mu sync.Mutex
	n := 0
	s := &Set{Now: time.Now, Trip: func(api.Trip, []uint32) { mu.Lock(); defer mu.Unlock(); n++ }}
	s.SetLimits(api.Breakers{Deletions: 100, Denials: 100})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				s.Deleted(fmt.Sprint(g, i), uint32(g))
				s.Denied(1, "x", uint32(g))
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, n)
}

// The count equals the number of events in the last minute of a list of all events. A breaker trips
// exactly if its count is above the limit.
func TestWindowModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, c, trips := newSet(api.Breakers{Deletions: int64(rapid.IntRange(1, 20).Draw(rt, "limit"))})
		limit := s.Limits().Deletions
		at := map[string]int64{} // the second in which a path was counted
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			c.at = c.at.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 5, 30, 61}).Draw(rt, "pause")) * time.Second)
			path := fmt.Sprint(rapid.IntRange(0, 40).Draw(rt, "path"))
			now := c.at.Unix()
			n := int64(0)
			for p, sec := range at {
				if now-sec >= minute {
					delete(at, p)
				} else {
					n++
				}
			}
			if _, ok := at[path]; !ok {
				at[path], n = now, n+1
			}
			s.Deleted(path, 1)
			require.Equal(rt, n > limit, len(*trips) == 1, "%d of %d", n, limit)
			if n > limit {
				return
			}
		}
	})
}

// BenchmarkOff measures what a deletion costs an agent without breakers.
func BenchmarkOff(b *testing.B) {
	s := &Set{Now: time.Now}
	for b.Loop() {
		s.Deleted("a", 1)
	}
}

func BenchmarkDeleted(b *testing.B) {
	s := &Set{Now: time.Now, Trip: func(api.Trip, []uint32) {}}
	s.SetLimits(api.Breakers{Deletions: 1 << 40})
	i := 0
	for b.Loop() {
		s.Deleted("some/directory/file"+fmt.Sprint(i%5000), 1)
		i++
	}
}
