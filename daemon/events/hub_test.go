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
	require.Len(t, h.Since(0), 10)
	require.Len(t, h.Since(122), 3)
	require.Empty(t, h.Since(125))
	require.Len(t, h.Since(9999), 10, "a number from another life of the daemon starts over")
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
