package lockd

import (
	"errors"

	"polis/lockd/table"
)

// ErrMustAsk is the error of AcquireLocal for leases that only the server can grant.
var ErrMustAsk = errors.New("lock server must be asked")

// AcquireLocal is Acquire for leases that the agent holds, or that it can grant in directories
// delegated to it. It waits for nothing. Any other request is ErrMustAsk, an invalid one too.
func (c *Client) AcquireLocal(r Request) (*Ticket, error) {
	t, err := c.acquireLocal(r)
	if err != nil {
		return nil, err
	}
	return c.beginUse(t, r.Op), nil
}

func (c *Client) acquireLocal(r Request) (*Ticket, error) {
	if t := c.quick(&r); t != nil {
		return t, nil
	}
	ws, err := r.wants()
	if err != nil || len(ws) > table.MaxKeys || sizeOf(ws) > maxRequestBytes || r.check(ws) != nil {
		return nil, ErrMustAsk
	}
	c.limits(ws)
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.own(ws, r.Op, r.Pid); t != nil {
		return t, nil
	}
	return nil, ErrMustAsk
}

// own returns a ticket for what is held already, or can be granted here. Called with c.mu held.
func (c *Client) own(ws []want, op string, pid uint32) *Ticket {
	if t := c.cached(ws); t != nil {
		return t // and no second one of here, whose pins nobody would take away
	}
	return c.here(ws, op, pid)
}

// quick is Acquire for one path in a delegated directory, with no more
// allocations than the lease itself needs.
func (c *Client) quick(r *Request) *Ticket {
	if c.lends.Load() == 0 || len(r.Paths) != 1 || len(r.Trees) > 0 || len(r.Op) > table.MaxName {
		return nil
	}
	one := [1]want{{path: r.Paths[0], mode: r.Mode, hold: Hold(DefaultHold)}}
	w := &one[0]
	if w.mode == "" {
		w.mode = Write
	}
	if table.CheckPath(w.path) != nil || w.mode != Write && w.mode != Read {
		return nil // Acquire returns the error
	}
	if c.HoldFor != nil {
		w.hold = c.HoldFor(w.path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.here(one[:], r.Op, r.Pid)
}
