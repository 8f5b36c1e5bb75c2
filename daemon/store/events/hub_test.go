package events

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

func TestSinceResumesAndTheRingIsBounded(t *testing.T) {
	h := New(100)
	h.Size = 10
	for range 25 {
		h.Publish(api.Event{Type: "x"})
	}
	require.Equal(t, uint64(125), h.Last())
	require.LessOrEqual(t, len(h.Since(0)), 12)
	require.GreaterOrEqual(t, len(h.Since(0)), 10)
	require.Len(t, h.Since(122), 3)
	require.Empty(t, h.Since(125))
	require.Equal(t, h.Since(0), h.Since(9999), "a number from another life of the daemon starts over")
}

func TestReadReportsMissedEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint64Range(1, 50).Draw(t, "first")
		h := New(first)
		h.Size = rapid.IntRange(1, 12).Draw(t, "size")
		h.Minor = func(e api.Event) bool { return e.Type == "minor" }
		all := map[uint64]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			all[h.Publish(api.Event{Type: rapid.SampledFrom([]string{"minor", "main"}).Draw(t, "type")}).ID] = true
		}
		id := rapid.Uint64Range(0, first+70).Draw(t, "since")
		got, last, missed := h.Read(id)
		require.Equal(t, h.Last(), last)
		have := map[uint64]bool{}
		for _, e := range got {
			have[e.ID] = true
		}
		// The model: what was published above id and is no longer there, what an earlier daemon
		// may have had, and numbers that were never issued.
		want := id > 0 && (id < first || id > h.Last())
		for e := range all {
			want = want || id > 0 && e > id && !have[e]
		}
		require.Equal(t, want, missed, "since %d of %d to %d", id, first, h.Last())
	})
}

// TestAFloodOfMinorEventsPushesOutNoOther: and it still pushes out its own.
func TestAFloodOfMinorEventsPushesOutNoOther(t *testing.T) {
	h := New(0)
	h.Size, h.Minor = 40, func(e api.Event) bool { return e.Type == "minor" }
	var want []uint64
	for i := range 2000 {
		if i%100 == 0 {
			want = append(want, h.Publish(api.Event{Type: "main"}).ID)
		}
		h.Publish(api.Event{Type: "minor"})
	}
	var got []uint64
	all := h.Since(0)
	require.LessOrEqual(t, len(all), 50)
	last := uint64(0)
	for _, e := range all {
		require.Greater(t, e.ID, last)
		last = e.ID
		if e.Type == "main" {
			got = append(got, e.ID)
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, h.Last(), last, "the newest is always kept")
	for range 200 {
		h.Publish(api.Event{Type: "main"})
	}
	require.LessOrEqual(t, len(h.Since(0)), 50, "even without minor events the ring is bounded")
}

func TestNoEventIsMissedByAWatcher(t *testing.T) {
	h := New(0)
	wake, cancel := h.Watch()
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				h.Publish(api.Event{Type: "x"})
			}
		})
	}
	seen, last := 0, uint64(0)
	for seen < 400 {
		<-wake
		for _, e := range h.Since(last) {
			require.Equal(t, last+1, e.ID)
			last = e.ID
			seen++
		}
	}
	wg.Wait()
}
