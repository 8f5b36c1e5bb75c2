package lockd

import (
	"fmt"
	"slices"

	"polis/lockd/table"
)

// reclaimed records which claims of one part the server confirmed.
func (c *Client) reclaimed(m *message) error {
	part, ok := c.claims[m.ID]
	if !ok || len(part) != len(m.Tokens) {
		return fmt.Errorf("answer to %d claims, %d were sent", len(m.Tokens), len(part))
	}
	delete(c.claims, m.ID)
	var paths []string
	for i, e := range part {
		switch {
		case c.entries[e.path] != e:
			// Released while the claim was in transit; the release follows it.
		case m.Tokens[i] == 0:
			c.lose(e)
			paths = append(paths, e.path)
		default:
			e.token.Store(m.Tokens[i])
		}
	}
	c.tellLost(paths, string(table.WhyEvicted))
	return nil
}

// forgetStale drops all leases if the server no longer knows them. A connected client does not
// call it: a shim that was stopped (or a slow server) loses nothing, it only has to go to the
// server until the next pong.
func (c *Client) forgetStale() {
	if c.link == nil && !c.trusted() {
		c.unlend()
		c.loseAll(string(table.WhyStale))
	}
}

func (c *Client) loseAll(why string) {
	c.unlend()
	var paths []string
	for _, e := range c.entries {
		if e.held {
			paths = append(paths, e.path)
			c.lose(e)
		}
	}
	if paths != nil {
		slices.Sort(paths)
		c.Log.Error("leases lost", "op", "session", "agent", c.Agent, "leases", len(paths), "why", why)
	}
	c.tellLost(paths, why)
}
