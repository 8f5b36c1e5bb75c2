package lockd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polis/lockd/table"
)

// call is a pending request of Acquire or roundTrip.
type call struct {
	wants   []want
	entries []*entry // of wants; all pinned
	asked   []int    // indices of wants that were sent
	sent    time.Duration
	left    bool    // no caller waits for the end any more
	leases  []Lease // answer to a query
	total   int
	undo    *message // releases what was granted too late
	err     error
	done    chan struct{}
}

// errDisconnected ends calls whose connection is lost; Acquire tries again.
var errDisconnected = errors.New("connection to lock server lost")

// Acquire takes the leases of r, all or nothing. What the agent holds already costs no round
// trip. Errors: *ConflictError if another holder keeps a path for longer than the wait,
// ErrUnavailable if the server does not answer within Bound, ErrLimit, ErrInvalid, or the error
// of ctx.
func (c *Client) Acquire(ctx context.Context, r Request) (*Ticket, error) {
	t, err := c.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.beginUse(t, r.Op), nil
}

func (c *Client) acquire(ctx context.Context, r Request) (*Ticket, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t := c.quick(&r); t != nil {
		return t, nil
	}
	ws, err := r.wants()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	t := c.cached(ws)
	c.mu.Unlock()
	if t != nil {
		return t, nil
	}
	if len(ws) > table.MaxKeys || sizeOf(ws) > maxRequestBytes {
		return c.askParts(ctx, &r, ws)
	}
	if err := r.check(ws); err != nil {
		return nil, err
	}
	return c.ask(ctx, &r, ws)
}

// limits sets how long each lease is held and waited for, and returns the longest wait.
func (c *Client) limits(ws []want) (longest time.Duration) {
	for i := range ws {
		w := &ws[i]
		w.hold, w.wait = Hold(DefaultHold), DefaultWait
		if c.HoldFor != nil {
			w.hold = c.HoldFor(w.path)
		}
		if c.WaitFor != nil {
			w.wait = max(c.WaitFor(w.path), 0)
		}
		longest = max(longest, w.wait)
	}
	return longest
}

// ask requests the leases from the server.
func (c *Client) ask(ctx context.Context, r *Request, ws []want) (*Ticket, error) {
	longest := c.limits(ws)
	start := c.Now()
	limit := time.NewTimer(longest + c.Bound)
	defer limit.Stop()
	reach := time.NewTimer(c.Bound)
	defer reach.Stop()
	for {
		c.mu.Lock()
		if t := c.own(ws, r.Op, r.Pid); t != nil {
			c.mu.Unlock()
			return t, nil
		}
		if c.closed {
			c.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ErrClosed)
		}
		if !c.open {
			ready := c.ready
			c.mu.Unlock()
			select {
			case <-ready:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-c.stopped:
				return nil, fmt.Errorf("%w: %w", ErrUnavailable, ErrClosed)
			case <-reach.C:
				return nil, fmt.Errorf("%w: no connection for %s", ErrUnavailable, c.Bound)
			}
		}
		// A second attempt, after a lost connection, has less time.
		cl, l, id := c.begin(r, ws, c.Now().Sub(start))
		c.mu.Unlock()
		l.flush()
		select {
		case <-cl.done:
		case <-ctx.Done():
			return nil, c.leave(id, cl, l, ctx.Err())
		case <-limit.C:
			return nil, c.leave(id, cl, l, fmt.Errorf("%w: no answer for %s", ErrUnavailable, longest+c.Bound))
		}
		switch {
		case errors.Is(cl.err, errDisconnected):
			reach.Reset(c.Bound)
		case cl.err != nil:
			return nil, cl.err
		default:
			t := &Ticket{client: c, entries: cl.entries}
			if t.Valid() {
				return t, nil
			}
			t.Done() // broken while we waited for the rest
		}
	}
}

// begin sends a request for what is missing and pins all of it. Called with c.mu held.
func (c *Client) begin(r *Request, ws []want, spent time.Duration) (*call, *link, uint64) {
	cl := &call{wants: ws, entries: make([]*entry, len(ws)), sent: c.since(), done: make(chan struct{})}
	m := &message{Type: msgAcquire, Op: r.Op, Pid: r.Pid}
	trusted := c.trusted()
	for i, w := range ws {
		e := c.entries[w.path]
		if e == nil {
			e = c.newEntry(w)
		}
		e.pins++
		cl.entries[i] = e
		if trusted && e.covers(w) {
			continue
		}
		cl.asked = append(cl.asked, i)
		k := wirePath(w.path)
		k.Tree, k.Read, k.Merge = w.tree, w.mode == Read, w.hold < 0
		k.Keep = millis(time.Duration(w.hold))
		k.Wait = millis(w.wait - spent)
		m.Keys = append(m.Keys, k)
	}
	c.lastID++
	m.ID = c.lastID
	c.calls[m.ID] = cl
	c.rouse()
	c.report() // a release must not overtake this
	c.link.put(m)
	return cl, c.link, m.ID
}

// leave abandons a pending call. Its pins go when the server has answered, so that an unwanted
// grant is released.
func (c *Client) leave(id uint64, cl *call, l *link, err error) error {
	c.mu.Lock()
	select {
	case <-cl.done: // the answer was faster
		if cl.err == nil {
			c.unpin(cl.entries)
			c.takeBack(cl)
		}
		c.mu.Unlock()
		l.wake()
	default:
		cl.left = true
		l.put(&message{Type: msgCancel, ID: id})
		c.mu.Unlock()
		l.wake()
	}
	return err
}

// takeBack undoes a call whose caller has left. Called with c.mu held.
func (c *Client) takeBack(cl *call) {
	if cl.undo == nil || c.link == nil {
		return
	}
	c.lastID++
	cl.undo.ID = c.lastID
	c.report()
	c.calls[c.lastID] = &call{left: true, done: make(chan struct{})}
	c.link.post(cl.undo)
}

// finish ends a call. Called with c.mu held.
func (c *Client) finish(id uint64, tokens []uint64, err error) {
	cl := c.calls[id]
	if cl == nil {
		return
	}
	delete(c.calls, id)
	if !errors.Is(err, errDisconnected) && cl.sent > time.Duration(c.contact.Load()) {
		c.contact.Store(int64(cl.sent)) // an answer counts as a pong
	}
	if err == nil && cl.wants != nil && len(tokens) != len(cl.asked) {
		err = fmt.Errorf("lock server granted %d of %d leases", len(tokens), len(cl.asked))
	}
	if err == nil {
		now := c.Now()
		for n, i := range cl.asked {
			c.grant(cl, i, tokens[n], now)
		}
		if !cl.left {
			for _, e := range cl.entries {
				e.use()
			}
		}
	}
	if err != nil || cl.left {
		c.unpin(cl.entries)
	}
	if err == nil && cl.left {
		c.takeBack(cl)
	}
	cl.err = err
	close(cl.done)
}

// grant records that wants[i] of a call is held now.
func (c *Client) grant(cl *call, i int, token uint64, now time.Time) {
	w, e := cl.wants[i], cl.entries[i]
	cur := c.entries[w.path]
	if cur == nil {
		// The entry was lost or forgotten while this request was on its way.
		cur = c.newEntry(w)
	}
	if cur != e {
		e.pins--
		cur.pins++
		cl.entries[i] = cur
	}
	if !cur.held {
		cur.held, cur.mode, cur.tree, cur.since = true, w.mode, w.tree, now
	} else {
		cur.tree = cur.tree || w.tree
		if w.mode == Write {
			cur.mode = Write
		}
	}
	cur.token.Store(max(token, cur.token.Load()))
	// What was granted here meanwhile may exceed what the server has been sent.
	cur.unreported = cur.unreported && (cur.mode != w.mode || cur.tree != w.tree)
	cur.reported = true
	c.passed(w.path, token)
	c.touch()
}
