package lockd

import (
	"fmt"
	"time"
	"unicode/utf8"

	"polis/lockd/table"
)

// Locks that an agent takes by name, at the server. The leases are explicit ones with the agent
// as holder: its client does not track them, they outlive a restart of the server by Save, and
// they end with the agent.

// maxFor bounds the duration of a lock.
const maxFor = 30 * 24 * time.Hour

func (c *conn) lock(m *message) error {
	if len(m.Keys) == 0 || m.For < 0 || m.For > maxFor.Milliseconds() {
		c.link.put(errorMessage(m.ID, fmt.Errorf("%w: lock of %d paths for %d ms", ErrInvalid, len(m.Keys), m.For)))
		return nil
	}
	length, most := time.Duration(m.For)*time.Millisecond, c.server.ExplicitMax
	if most > 0 && length > most {
		c.link.put(errorMessage(m.ID, fmt.Errorf("%w: lock for %s: an agent's lock lasts at most %s (locks.explicit_max)", ErrInvalid, length, most)))
		return nil
	}
	if length == 0 {
		length = most
	}
	if m.Type == msgLock && len(m.Reason) > table.MaxReason {
		c.link.put(errorMessage(m.ID, fmt.Errorf("%w: reason of %d bytes", ErrInvalid, len(m.Reason))))
		return nil
	}
	r := table.Request{
		Workspace: c.workspace, Holder: c.agent, Explicit: true, Op: m.Op, Pid: m.Pid,
		Reason: m.Reason, For: length, Most: most, Soft: m.Soft,
		Keys: make([]table.Key, len(m.Keys)),
	}
	for i := range m.Keys {
		k, err := m.Keys[i].key()
		if err == nil {
			err = checkKept(k.Path)
		}
		if err != nil {
			c.link.put(errorMessage(m.ID, err))
			return nil
		}
		r.Keys[i] = k
	}
	full := false
	gone := c.do(func(t *table.Table) {
		has := len(t.Explicit(func(l Lease) bool { return l.Holder == c.agent && !l.Merge }))
		if full = has+len(r.Keys) > c.server.MaxByName; full {
			c.link.put(errorMessage(m.ID, fmt.Errorf("%w: %s has locked %d paths by name, and %d are the most", ErrLimit, c.agent, has, c.server.MaxByName)))
		}
	})
	if gone != nil || full {
		return gone
	}
	return c.enter(m.ID, r)
}

// checkKept rejects a path that a text file cannot hold.
func checkKept(path string) error {
	if !utf8.ValidString(path) {
		return fmt.Errorf("%w: path %q is not UTF-8, which an explicit lock needs", ErrInvalid, path)
	}
	return nil
}

func (c *conn) unlock(m *message) error {
	if len(m.Keys) != 1 {
		return fmt.Errorf("%w: unlock of %d paths", ErrInvalid, len(m.Keys))
	}
	return c.do(func(t *table.Table) {
		if _, err := t.Unlock(c.workspace, c.agent, m.Keys[0].path()); err != nil {
			c.link.put(errorMessage(m.ID, err))
			return
		}
		c.link.put(&message{Type: msgOK, ID: m.ID})
	})
}

// Bounds of an answer to own: it must fit into a frame.
const (
	maxOwn      = 1000
	maxOwnBytes = 200 << 10
)

// own lists the agent's leases of both kinds, those with waiters first.
func (c *conn) own(m *message) error {
	return c.do(func(t *table.Table) {
		all := t.List(Filter{Workspace: c.workspace, Holder: c.agent})
		out, size := make([]Lease, 0, min(len(all), maxOwn)), 0
		for _, awaited := range []bool{true, false} {
			for _, l := range all {
				if (len(l.Waiting) > 0) != awaited || len(out) >= maxOwn || size > maxOwnBytes {
					continue
				}
				l.Waiting = l.Waiting[:min(len(l.Waiting), maxWaitersListed)]
				l.Waiters = nil // the same information as Waiting
				size += len(l.Path) + len(l.Reason) + 150*len(l.Waiting)
				out = append(out, l)
			}
		}
		c.link.put(&message{Type: msgLeases, ID: m.ID, Leases: out, Total: len(all)})
	})
}

// maxWaitersListed bounds the waiters listed for one lease.
const maxWaitersListed = 16
