package lockd

import (
	"container/heap"
	"slices"
	"time"
)

// A busy file is checked again after a pause that doubles from firstCheck to busyPause: right
// after a close it is mostly the kernel that still holds the file, which takes a moment; a
// mapping may live for hours.
const (
	busyPause  = time.Second
	pauses     = 6
	firstCheck = busyPause >> pauses // 16 ms
)

// needsBusyCheck reports whether Busy decides when e is released.
func (c *Client) needsBusyCheck(e *entry) bool {
	return c.Busy != nil && e.used && !e.tree && e.mode == Write
}

// unused returns those of es that are not busy. c.mu is held, and released meanwhile; the entries
// are pinned, so that no other goroutine releases them.
func (c *Client) unused(es []*entry) []*entry {
	var ask []*entry
	es = slices.DeleteFunc(es, func(e *entry) bool {
		if c.needsBusyCheck(e) || e.compare {
			e.pins++
			if e.recent {
				e.checks = 0
			}
			e.recent = false
			ask = append(ask, e)
			return true
		}
		return false
	})
	if ask == nil {
		return es
	}
	busy, same, before := make([]bool, len(ask)), make([]bool, len(ask)), make([]any, len(ask))
	for i, e := range ask {
		if e.compare {
			before[i] = e.before
		}
	}
	c.mu.Unlock()
	for i, e := range ask {
		busy[i] = c.Busy != nil && c.Busy(e.path)
		same[i] = !busy[i] && before[i] != nil && c.same(e, before[i])
	}
	c.mu.Lock()
	now := c.Now()
	for i, e := range ask {
		switch e.pins--; {
		case e.pins > 0 || e.lost.Load() || !e.held:
			// In use again, and scheduled when that use ends; or gone.
		case e.compare:
			if c.compared(e, busy[i], same[i] && !e.recent, now) {
				es = append(es, e)
			}
		case e.recent && e.hold >= 0:
			e.idle = now // used and closed meanwhile
			c.schedule(e, now.Add(time.Duration(e.hold)))
		case busy[i] && e.hold >= 0:
			c.recheck(e, now)
		case e.hold >= 0:
			es = append(es, e)
		}
	}
	return es
}

// compared decides about an entry that was compared, and reports whether it is released.
func (c *Client) compared(e *entry, busy, same bool, now time.Time) bool {
	switch {
	case same:
		return true
	case e.recent:
		c.schedule(e, now) // used and closed meanwhile
	case busy && e.checks < busyCompares:
		c.recheck(e, now)
	default:
		e.compare = false
		e.forgetState()
		if e.hold > 0 {
			c.schedule(e, later(e.idle.Add(time.Duration(e.hold)), now))
		}
	}
	return false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// recheck schedules another check of a busy entry, whatever its hold.
func (c *Client) recheck(e *entry, now time.Time) {
	if e.slot == 0 {
		e.due = now.Add(firstCheck << e.checks)
		e.checks = min(e.checks+1, pauses)
		if !e.compare {
			e.idle = e.due.Add(-time.Duration(e.hold))
		}
		heap.Push(&c.expiry, e)
	}
}
