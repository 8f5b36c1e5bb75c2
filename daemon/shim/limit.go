package shim

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// limit is a token bucket: a program that does something in a loop must not flood the events. The zero value is full.
type limit struct {
	once    sync.Once
	bucket  *rate.Limiter
	dropped atomic.Int64
}

const (
	limitBurst = 64
	limitEvery = 50 * time.Millisecond
)

// pass reports whether one more may be published at the given time.
func (l *limit) pass(now time.Time) bool {
	l.once.Do(func() { l.bucket = rate.NewLimiter(rate.Every(limitEvery), limitBurst) })
	if !l.bucket.AllowN(now, 1) {
		l.dropped.Add(1)
		return false
	}
	return true
}

// omitted returns how many did not pass since the last call.
func (l *limit) omitted() int { return int(l.dropped.Swap(0)) }
