package lockd

import (
	"container/heap"
	"slices"
	"time"
)

// A busy file is looked at again after a pause that doubles from firstLook to
// busyPause: right after a close it is mostly the kernel that still lets go of the
// file, which takes a moment; a mapping may live for hours.
const (
	busyPause = time.Second
	pauses    = 6
	firstLook = busyPause >> pauses // 16 ms
)

// asks says whether Busy is to be asked about e.
func (c *Client) asks(e *entry) bool {
	return c.Busy != nil && e.used && !e.tree && e.mode == Write
}

// unused returns those of es that Busy says no of. c.mu is held, and let go
// of meanwhile; the entries are pinned, so that nobody else gives them back.
func (c *Client) unused(es []*entry) []*entry {
	var ask []*entry
	es = slices.DeleteFunc(es, func(e *entry) bool {
		if c.asks(e) {
			e.pins++
			if e.anew {
				e.looks = 0
			}
			e.anew = false
			ask = append(ask, e)
			return true
		}
		return false
	})
	if ask == nil {
		return es
	}
	busy := make([]bool, len(ask))
	c.mu.Unlock()
	for i, e := range ask {
		busy[i] = c.Busy(e.path)
	}
	c.mu.Lock()
	now := c.Now()
	for i, e := range ask {
		switch e.pins--; {
		case e.pins > 0 || e.lost.Load() || !e.held:
			// In use again, and scheduled when that is over; or gone.
		case e.anew && e.hold >= 0:
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

// recheck has a busy entry looked at again after a pause, whatever its hold.
func (c *Client) recheck(e *entry, now time.Time) {
	if e.slot == 0 {
		e.due = now.Add(firstLook << e.looks)
		e.looks = min(e.looks+1, pauses)
		e.idle = e.due.Add(-time.Duration(e.hold))
		heap.Push(&c.expiry, e)
	}
}
