package main

import (
	"context"
	"time"

	"polis/internal/pause"
)

const (
	// reconnectFor bounds how long what follows polisd waits for it to come
	// back, which a restart takes much less than.
	reconnectFor = 30 * time.Second
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// reconnect paces the attempts to reach a polisd that was there a moment ago.
type reconnect struct {
	now  func() time.Time
	lost time.Time // since when polisd has not answered; zero: it answers
	wait time.Duration
}

// answered records that polisd answered.
func (r *reconnect) answered() { r.lost = time.Time{} }

// again waits and reports whether to ask once more. lasted is how long the
// connection held that is lost now.
func (r *reconnect) again(ctx context.Context, lasted time.Duration) bool {
	if r.lost.IsZero() || lasted > longestPause {
		r.lost, r.wait = r.now(), firstPause
	}
	if r.now().Sub(r.lost) > reconnectFor {
		return false
	}
	defer func() { r.wait = min(2*r.wait, longestPause) }()
	return pause.For(ctx, r.wait)
}
