package lockd

import "sync"

// Use is a ticket on a lease that is held already. Client.Use returns it; it is reused after
// Done, which must be called exactly once.
type Use struct {
	client *Client
	one    [1]*entry
	ends   bool
}

var uses = sync.Pool{New: func() any { return new(Use) }}

// Use takes a ticket for an operation that writes path if the lease is held, and returns nil otherwise: then it has
// to be acquired. It makes no request, does not wait and does not allocate: an agent writes the
// same files again and again.
func (c *Client) Use(path, op string) *Use {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.trusted() {
		return nil
	}
	e := c.entries[path]
	if e == nil || !e.covers(want{path: path, mode: Write}) {
		return nil
	}
	e.pins++
	e.use()
	u := uses.Get().(*Use) //nolint:forcetypeassert // nothing else is in the pool
	u.client, u.one[0] = c, e
	u.ends = c.Compare != nil && c.Compare.Ends(op)
	return u
}

// Valid is Ticket.Valid.
func (u *Use) Valid() bool { return u.client.trusted() && !u.one[0].lost.Load() }

// Done ends the use.
func (u *Use) Done() {
	u.client.unpinAll(u.one[:], u.ends)
	u.client, u.one[0] = nil, nil
	uses.Put(u)
}
