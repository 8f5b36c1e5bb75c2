package lockd

import (
	"container/heap"
	"sync/atomic"
	"time"
)

// entry is a path that this client holds or has requested. All fields but the atomics are guarded
// by Client.mu.
type entry struct {
	path  string
	first firstTicket // saves the first user an allocation
	op    string      // of what was granted here
	pid   uint32
	tree  bool
	mode  Mode
	hold  Hold
	held  bool
	since time.Time
	token atomic.Uint64
	// unreported: granted here, and not yet reported to the server.
	unreported bool
	// reported: the server has a lease on the path, perhaps a smaller one than was granted here
	// since.
	reported bool
	lost     atomic.Bool // taken away; removed from the cache

	// pins counts tickets and running requests. A pinned entry is not
	// released, so a release can never overtake a grant of the same path.
	pins   int
	used   bool      // a ticket was ever given on it
	recent bool      // and one since the last busy check
	checks uint8     // busy checks since then
	idle   time.Time // when the last pin went
	due    time.Time // when the expiry heap checks it
	slot   int       // index in the heap plus one; 0: not in it

	// state and before are what is known of the file before the lease. compare: the next check compares, and releases
	// the lease if nothing has changed.
	state   stateOf
	before  any
	compare bool
}

func (e *entry) covers(w want) bool {
	return e.held && (e.mode == Write || w.mode == Read) && (e.tree || !w.tree)
}

// expiry orders idle entries by the time of their next check. An entry that was used in between
// is pushed again when it comes up, so that using a held lease costs no heap operation.
type expiry []*entry

func (h expiry) Len() int           { return len(h) }
func (h expiry) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h expiry) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i+1, j+1
}
func (h *expiry) Push(x any) {
	e := x.(*entry)
	*h = append(*h, e)
	e.slot = len(*h)
}
func (h *expiry) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.slot = 0
	return e
}

// cached returns a ticket if all of ws is held already. Called with c.mu held.
func (c *Client) cached(ws []want) *Ticket {
	if c.closed || !c.trusted() {
		return nil
	}
	for i := range ws {
		if e := c.entries[ws[i].path]; e == nil || !e.covers(ws[i]) {
			return nil
		}
	}
	t := &Ticket{client: c, entries: make([]*entry, len(ws))}
	for i := range ws {
		t.entries[i] = c.entries[ws[i].path]
	}
	for _, e := range t.entries {
		e.pins++
		e.use()
	}
	return t
}

// unpinAll unpins entries after an operation and releases those whose time is over. ends is Compare.Ends of it.
func (c *Client) unpinAll(es []*entry, ends bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range es {
		e.compare = ends && e.state == hasState
	}
	c.unpin(es)
}

func (c *Client) unpin(es []*entry) {
	now := c.Now()
	var over []*entry
	for _, e := range es {
		if e.pins--; e.pins > 0 || e.lost.Load() {
			continue
		}
		e.idle = now
		switch {
		case !e.held:
			c.forget(e) // the request was refused
		case e.hold == HoldClose && c.needsBusyCheck(e):
			c.schedule(e, now)
		case e.hold == HoldClose || !e.used:
			over = append(over, e)
		case e.compare:
			if e.slot != 0 {
				heap.Remove(&c.expiry, e.slot-1) // it is due with the hold
			}
			c.schedule(e, now)
		case e.hold > 0:
			c.schedule(e, now.Add(time.Duration(e.hold)))
		}
	}
	c.release(over)
}

// schedule puts e into the expiry heap, unless it is there already.
func (c *Client) schedule(e *entry, due time.Time) {
	if e.slot != 0 {
		return
	}
	e.due = due
	heap.Push(&c.expiry, e)
	if e.slot == 1 {
		c.wakeKeeper()
	}
}

// expireAtOnce is how many leases are checked before the cache is unlocked for others.
const expireAtOnce = 256

// expire releases what has been idle for its hold, and reports whether more may be due.
func (c *Client) expire(now time.Time) (more bool) {
	var over []*entry
	for n := 0; len(c.expiry) > 0 && !c.expiry[0].due.After(now); n++ {
		if more = n == expireAtOnce; more {
			break
		}
		e := heap.Pop(&c.expiry).(*entry)
		if e.pins > 0 || e.hold < 0 && !e.compare {
			continue // the last unpin schedules it again
		}
		if due := e.idle.Add(time.Duration(e.hold)); due.After(now) && !e.compare {
			c.schedule(e, due)
			continue
		}
		over = append(over, e)
	}
	c.release(c.unused(over))
	return more
}

// forget takes e out of the cache.
func (c *Client) forget(e *entry) {
	if c.entries[e.path] == e {
		delete(c.entries, e.path)
	}
	if e.slot != 0 {
		heap.Remove(&c.expiry, e.slot-1)
	}
	if e.held {
		e.held = false
		if e.known() {
			c.touch()
		}
	}
}

// known reports whether the server has a lease on the path, which then needs a release.
func (e *entry) known() bool { return e.reported || !e.unreported }

// lose marks an entry as taken away; its tickets become invalid.
func (c *Client) lose(e *entry) {
	c.forget(e)
	e.lost.Store(true)
}

// release returns idle entries to the server. Without a connection it is enough to forget them:
// the server drops what is not reclaimed.
func (c *Client) release(es []*entry) {
	if len(es) == 0 {
		return
	}
	var now []wireKey
	later := len(c.freed)
	for _, e := range es {
		c.forget(e)
		switch {
		case c.link == nil || !e.known():
		case e.hold >= lazyHold && !e.compare || c.delegated(e.path) != nil:
			c.freed = append(c.freed, wirePath(e.path))
		default:
			now = append(now, wirePath(e.path))
		}
	}
	if len(c.freed) > later {
		c.toReport()
	}
	if now != nil {
		c.putFreed(now)
		c.link.wake()
	}
}

// lazyHold is the hold from which a lease that has expired may be released a moment later,
// together with others.
const lazyHold = Hold(time.Second)

// claim is the lease as the server gets it.
func (e *entry) claim() wireKey {
	k := wirePath(e.path)
	k.Tree, k.Read, k.Merge = e.tree, e.mode == Read, e.hold < 0
	k.Keep = millis(time.Duration(e.hold))
	k.Token, k.Since = e.token.Load(), e.since.UnixMilli()
	return k
}

func (c *Client) newEntry(w want) *entry {
	e := &entry{path: w.path, hold: w.hold, mode: w.mode}
	c.entries[w.path] = e
	return e
}
