package pause

import (
	"context"
	"time"
)

// share is how many times as long as it worked a worker pauses.
const share = 4

// For waits for d. It returns false if ctx ends before.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Worker pauses after work that began then: four times as long as the work took, so that it takes a
// fifth of a processor at most, and no longer than most. It returns false if ctx ends before.
func Worker(ctx context.Context, began time.Time, most time.Duration) bool {
	return For(ctx, min(share*time.Since(began), most))
}
