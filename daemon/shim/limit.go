package shim

import (
	"sync"
	"time"
)

// limit is a token bucket: a program that is refused in a loop must neither
// flood the events nor push out what else was refused.
type limit struct {
	mu     sync.Mutex
	tokens int
	filled time.Time
}

const (
	limitBurst = 64
	limitEvery = 50 * time.Millisecond
)

// pass says whether one more may be told at the given time.
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
