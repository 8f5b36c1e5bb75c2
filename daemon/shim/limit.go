package shim

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limit is a token bucket: a program that is refused in a loop must neither flood the events nor
// displace other refusals. The zero value is full.
type limit struct {
	once   sync.Once
	bucket *rate.Limiter
}

const (
	limitBurst = 64
	limitEvery = 50 * time.Millisecond
)

// pass reports whether one more may be published at the given time.
func (l *limit) pass(now time.Time) bool {
	l.once.Do(func() { l.bucket = rate.NewLimiter(rate.Every(limitEvery), limitBurst) })
	return l.bucket.AllowN(now, 1)
}
