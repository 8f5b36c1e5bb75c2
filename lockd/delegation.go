package lockd

import (
	"strings"
	"time"

	"polis/lockd/table"
)

// ReportEvery is the maximum delay with which a client reports leases that it granted itself or
// released.
const ReportEvery = 100 * time.Millisecond

// delegation is a directory in which this client grants leases itself. The server grants no other
// holder a lease there before the client has answered its recall, and the answer follows a report
// of all leases: so they are in the table before it decides about another request.
//
// The tokens are a block that the server reserved: they are above those of all earlier holders
// and below those of all later ones, and next only grows.
type delegation struct {
	next, last uint64
	// used: a lease was granted since the last check for idle delegations.
	used bool
}

// delegated returns the delegation that path is in, or nil.
func (c *Client) delegated(path string) *delegation {
	if len(c.lent) == 0 {
		return nil
	}
	rel, file := table.Rel(path)
	for file {
		if d := c.lent[rel]; d != nil || rel == "" {
			return d
		}
		rel = rel[:max(strings.LastIndexByte(rel, '/'), 0)]
	}
	return nil
}

// here is Acquire as far as this client can decide it: it takes what is held already, or is in a
// delegated directory, and returns nil if that is not all. Called with c.mu held.
func (c *Client) here(ws []want, op string, pid uint32) *Ticket {
	if c.closed || !c.trusted() || len(c.entries)+len(ws) > c.limit {
		return nil
	}
	for i := range ws {
		if e := c.entries[ws[i].path]; e != nil && e.covers(ws[i]) {
			continue
		}
		d := c.delegated(ws[i].path)
		if d == nil || d.last < d.next+uint64(len(ws)) {
			return nil
		}
	}
	var t *Ticket
	if len(ws) > 1 {
		t = &Ticket{client: c, entries: make([]*entry, 0, len(ws))}
	}
	for i := range ws {
		e := c.entries[ws[i].path]
		switch {
		case e == nil:
			e = c.newEntry(ws[i])
			if t == nil {
				t = e.first.on(c, e)
			}
			c.give(e, ws[i], op, pid)
		case !e.covers(ws[i]):
			c.give(e, ws[i], op, pid)
		}
		if t == nil {
			t = new(firstTicket).on(c, e)
		}
		if len(ws) > 1 {
			t.entries = append(t.entries, e)
		}
		e.pins++
		e.use()
	}
	return t
}

// give grants w, which is in a delegated directory.
func (c *Client) give(e *entry, w want, op string, pid uint32) {
	d := c.delegated(w.path)
	if !e.held {
		e.held, e.mode, e.tree, e.since = true, w.mode, w.tree, c.Now()
	} else {
		e.tree = e.tree || w.tree
		if w.mode == Write {
			e.mode = Write
		}
	}
	e.token.Store(d.next)
	d.next++
	d.used = true
	e.op, e.pid = op, pid
	if !e.unreported {
		e.unreported = true
		c.unreported = append(c.unreported, e)
		c.toReport()
	}
}

// firstTicket is a ticket on one entry, in one allocation with its list.
type firstTicket struct {
	Ticket
	one [1]*entry
}

func (f *firstTicket) on(c *Client, e *entry) *Ticket {
	f.one[0] = e
	f.client, f.entries = c, f.one[:]
	return &f.Ticket
}

// toReport schedules a report, or sends it if there is much to report.
func (c *Client) toReport() {
	if c.reportAt.IsZero() {
		c.reportAt = c.Now().Add(ReportEvery)
		c.wakeKeeper()
	}
	if len(c.unreported)+len(c.freed) >= chunkItems {
		c.report()
		if c.link != nil {
			c.link.wake()
		}
	}
}

// report queues what the server does not know yet: first what was released, since some of it may
// have been granted again. Without a connection nothing is reported: the next one begins with all
// claims.
func (c *Client) report() {
	c.reportAt = time.Time{}
	freed, unreported := c.freed, c.unreported
	c.freed, c.unreported = nil, nil
	if c.link == nil {
		return
	}
	c.putFreed(freed)
	keys := make([]wireKey, 0, len(unreported))
	for _, e := range unreported {
		if !e.unreported || !e.held {
			continue // released before it was reported
		}
		e.unreported, e.reported = false, true
		k := e.claim()
		k.Op, k.Pid = e.op, e.pid
		keys = append(keys, k)
	}
	chunks(keys, func(part []wireKey) { c.link.put(&message{Type: msgReport, Keys: part}) })
	if len(keys)+len(freed) > 0 {
		c.touch()
	}
}

func (c *Client) putFreed(keys []wireKey) {
	chunks(keys, func(part []wireKey) { c.link.put(&message{Type: msgRelease, Keys: part}) })
}

// lend records the delegations that came with a grant; each replaces those below it.
func (c *Client) lend(lent []wireKey) {
	for i := range lent {
		d := lent[i].delegation()
		for dir := range c.lent {
			if d.Dir == "" || strings.HasPrefix(dir, d.Dir+"/") {
				delete(c.lent, dir)
			}
		}
		c.lent[d.Dir] = &delegation{next: d.Token, last: d.Last, used: true}
	}
	c.lends.Store(int32(len(c.lent)))
}

// passed records that the server granted path itself: no token that is left of an older block may
// follow that one.
func (c *Client) passed(path string, token uint64) {
	if d := c.delegated(path); d != nil {
		d.next = max(d.next, token+1)
	}
}

// recalled returns what the server recalls. What was granted under it is reported before, in the
// same stream.
func (c *Client) recalled(m *message) {
	for i := range m.Lent {
		delete(c.lent, m.Lent[i].path())
	}
	c.lends.Store(int32(len(c.lent)))
	c.report()
	c.link.post(&message{Type: msgReturn, Lent: m.Lent})
}

// returnIdle returns unused delegations without a recall: a shim that hangs then blocks no other
// agent in directories it no longer uses.
func (c *Client) returnIdle() {
	if c.link == nil || !c.open {
		return
	}
	var idle []wireKey
	for dir, d := range c.lent {
		if d.used {
			d.used = false
			continue
		}
		k := wirePath(dir)
		k.Last = d.last
		idle = append(idle, k)
		delete(c.lent, dir)
	}
	if idle == nil {
		return
	}
	c.lends.Store(int32(len(c.lent)))
	c.report()
	chunks(idle, func(part []wireKey) { c.link.put(&message{Type: msgReturn, Lent: part}) })
	c.link.wake()
}

// unlend forgets all delegations.
func (c *Client) unlend() {
	clear(c.lent)
	c.lends.Store(0)
}
