package events

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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
