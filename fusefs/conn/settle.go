package conn

import (
	"slices"
	"time"
)

// Settle waits until every request that was with its handler when it was called
// has been answered, for limit at most, and says whether all were. What is
// notified after that overtakes no answer that was found before: without it the
// kernel could be told to forget, and then be given the old answer to keep. Not
// to be called by a handler.
func (c *Conn) Settle(limit time.Duration) bool {
	c.mu.Lock()
	calls := make([]*Call, 0, len(c.readers))
	for _, r := range c.readers {
		calls = append(calls, &r.call)
	}
	c.mu.Unlock()
	begun := make([]uint64, 0, len(calls))
	calls = slices.DeleteFunc(calls, func(call *Call) bool {
		u := call.unique.Load()
		if call.answered.Load() == u {
			return true
		}
		begun = append(begun, u)
		return false
	})
	end := time.Now().Add(limit)
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		left := false
		for i, call := range calls {
			left = left || call.unique.Load() == begun[i] && call.answered.Load() != begun[i]
		}
		if !left || time.Now().After(end) {
			return !left
		}
		select {
		case <-c.dead:
			return true // nobody gets an answer any more
		case <-time.After(pause):
		}
	}
}
