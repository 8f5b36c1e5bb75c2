package shim

import (
	"sync"
	"time"
)

// limit is a token bucket: a program that is refused in a loop must neither flood the events nor
// displace other refusals.
type limit struct {
	mu     sync.Mutex
	tokens int
	filled time.Time
}

const (
	limitBurst = 64
	limitEvery = 50 * time.Millisecond
)

// pass reports whether one more may be published at the given time.
func (l *limit) pass(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filled.IsZero() {
		l.tokens, l.filled = limitBurst, now
	}
	if n := int(now.Sub(l.filled) / limitEvery); n > 0 {
		l.tokens = min(limitBurst, l.tokens+n)
		l.filled = l.filled.Add(time.Duration(n) * limitEvery)
	}
	if l.tokens == 0 {
		return false
	}
	l.tokens--
	return true
}
