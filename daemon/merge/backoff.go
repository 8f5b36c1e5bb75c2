package merge

import (
	"context"
	"math/rand/v2"
	"time"
)

// The bounds of the wait between two attempts to move a branch.
const (
	firstWait = 20 * time.Millisecond
	maxWait   = time.Second
)

// Delay is how long to wait before the next attempt, after attempt number try (from 1) met
// another change of the same branch: twice as long each time, at most a second, of which the
// second half is random, so that two merges that met do not meet again.
func Delay(try int) time.Duration {
	d := maxWait
	if n := try - 1; n < 16 && firstWait<<max(n, 0) < maxWait {
		d = firstWait << max(n, 0)
	}
	return d/2 + rand.N(d/2)
}

// Backoff waits for the Delay of an attempt. It returns why the context ended.
func Backoff(ctx context.Context, try int) error {
	t := time.NewTimer(Delay(try))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
