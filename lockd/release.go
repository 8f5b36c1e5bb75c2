package lockd

import "slices"

// Release releases unused leases on these paths; those in use follow at their last Done, whatever
// their hold.
func (c *Client) Release(paths ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var over []*entry
	for _, p := range paths {
		if e := c.entries[p]; e != nil {
			over = c.letGo(e, over)
		}
	}
	c.release(over)
}

// ReleaseAll is Release for everything held.
func (c *Client) ReleaseAll() { c.releaseIf(func(*entry) bool { return true }) }

func (c *Client) releaseIf(which func(*entry) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var over []*entry
	for _, e := range c.entries {
		if which(e) {
			over = c.letGo(e, over)
		}
	}
	c.release(over)
}

func (c *Client) letGo(e *entry, over []*entry) []*entry {
	e.hold = HoldClose
	if e.held && e.pins == 0 {
		return append(over, e)
	}
	return over
}

// ReleaseIdle releases at once the leases that which selects and nothing uses: no handle is open, and
// no mapping writes to the file. Those that stay until the merge are not among them (see
// Server.ReleaseMerge).
func (c *Client) ReleaseIdle(which func(path string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*entry
	for _, e := range c.entries {
		if e.hold >= 0 && which(e.path) {
			all = append(all, e)
		}
	}
	for part := range slices.Chunk(all, expireAtOnce) {
		over := slices.DeleteFunc(part, func(e *entry) bool {
			e.compare = false // whatever it is
			return !e.held || e.pins > 0 || e.lost.Load()
		})
		c.release(c.unused(over))
	}
}

// Held returns how many leases the client has.
func (c *Client) Held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.entries {
		if e.held {
			n++
		}
	}
	return n
}
