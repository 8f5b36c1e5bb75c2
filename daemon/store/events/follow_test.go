package events

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestFollowMissesNoEventOnceItHasBegun(t *testing.T) {
	h := New(0)
	h.Publish(api.Event{Message: "before"})
	ctx, cancel := context.WithCancel(t.Context())
	got, done := make(chan api.Event, 100), make(chan struct{})
	go func() {
		defer close(done)
		h.Follow(ctx, func(e api.Event) { got <- e })
	}()
	require.Eventually(t, func() bool { h.Publish(api.Event{Message: "begin"}); return len(got) > 0 }, time.Minute, 5*time.Millisecond)
	newest := h.Publish(api.Event{Message: "end"}).ID
	last := (<-got).ID
	require.Greater(t, last, uint64(1), "what was before is left out")
	for last < newest {
		next := (<-got).ID
		require.Equal(t, last+1, next)
		last = next
	}
	cancel()
	<-done
	require.Empty(t, h.subs, "it watches no more")
}
