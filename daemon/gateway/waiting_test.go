package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitingForAnswers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	var w waiting
	pass := func(d time.Duration) time.Time { now = now.Add(d); return now }
	require.Zero(t, w.state(now))

	sent := now
	end := w.begin(clock)
	require.Equal(t, Waiting{Open: 1, Since: sent}, w.state(pass(5*time.Minute)))
	second := w.begin(clock)
	require.Equal(t, Waiting{Open: 2, Since: sent}, w.state(pass(time.Minute)), "the first counts")
	end()
	second()
	require.Equal(t, Waiting{Since: sent}, w.state(pass(time.Second)), "it failed, and is sent again")
	end = w.begin(clock)
	w.heard([]byte("event: ping\ndata: {\"type\": \"ping\"}\n\n"), pass(time.Second))
	w.heard([]byte(": PROCESSING\n\n"), pass(time.Second))
	require.Equal(t, Waiting{Open: 1, Since: sent}, w.state(now), "what keeps the connection open is no answer")
	heard := pass(time.Second)
	w.heard([]byte("event: message_start\n\n"), heard)
	require.Equal(t, Waiting{Open: 1, Since: heard, Heard: heard}, w.state(pass(time.Minute)), "the answer may stop in its midst")
	end()
	require.Equal(t, Waiting{Heard: heard}, w.state(now), "it is complete")

	w.begin(clock)()
	require.NotZero(t, w.state(pass(retryTime-1)).Since)
	require.Equal(t, Waiting{Heard: heard}, w.state(pass(1)), "it is not sent again")
}
