package conn

import (
	"maps"
	"time"
)

// Settle waits until every request that was with its handler when it was called has been
// answered, for limit at most, and reports whether all were. A notification after that overtakes
// no earlier answer: without it the kernel could drop its cache, and then cache the old answer. A
// handler must not call it. A request that waits in Call.Wait is not awaited: its handler decides
// again afterwards.
func (c *Conn) Settle(limit time.Duration) bool {
	begun := map[*reader]uint64{}
	c.mu.Lock()
	for _, r := range c.readers {
		if u := r.call.unique.Load(); !r.settled(u) {
			begun[r] = u
		}
	}
	c.mu.Unlock()
	end := time.Now().Add(limit)
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		c.mu.Lock()
		maps.DeleteFunc(begun, (*reader).settled)
		c.mu.Unlock()
		if len(begun) == 0 || time.Now().After(end) {
			return len(begun) == 0
		}
		select {
		case <-c.dead:
			return true // answers are discarded from now on
		case <-time.After(pause):
		}
	}
}

// settled reports that the kernel has the answer to a request. Conn.mu is held: it keeps the
// ring.
func (r *reader) settled(unique uint64) bool {
	switch {
	case r.call.unique.Load() != unique, r.call.waiting.Load(), r.call.answered.Load() == unique:
		return true
	case r.ring == nil || r.call.given.Load() != unique:
		return false
	}
	return r.ring.taken()
}
