package lockd

import (
	"context"
	"errors"
	"time"
)

// maxNotes is how many waiter notes may be queued for a slow OnWaiter. Losses
// are always queued: there are no more of them than leases.
const maxNotes = 256

// errSilent ends a connection whose server does not answer pings.
var errSilent = errors.New("lock server does not answer")

// dormantBeats is how many times longer the interval of pings is while the client rests. The end
// of the server closes the connection at once; pings only find a server that hangs.
const dormantBeats = 12

// rests reports that nothing depends on recent contact: the client is connected, holds nothing
// and waits for no answer. A hundred idle agents then cost the machine next to nothing. Called
// with c.mu held.
func (c *Client) rests() bool {
	return c.open && len(c.entries) == 0 && len(c.lent) == 0 && len(c.calls) == 0
}

// rouse ends the rest: an answer that comes late counts only with pings since. Called with c.mu
// held, when a request is made.
func (c *Client) rouse() {
	if c.dormant {
		c.dormant = false
		c.wakeKeeper()
	}
}

func (c *Client) wakeKeeper() {
	select {
	case c.keep <- struct{}{}:
	default:
	}
}

// keeper does the client's timed work: releases idle leases, pings, and drops everything when the
// session has been lost for too long.
func (c *Client) keeper(ctx context.Context) {
	timer := time.NewTimer(c.heartbeat())
	defer timer.Stop()
	var beat time.Time
	for {
		now := c.Now()
		c.mu.Lock()
		for c.expire(now) {
			c.mu.Unlock()
			c.mu.Lock()
		}
		if !c.reportAt.IsZero() && !c.reportAt.After(now) {
			c.report()
			if c.link != nil {
				c.link.wake()
			}
		}
		c.forgetStale()
		every := c.heartbeat()
		if c.dormant = c.rests(); c.dormant {
			every *= dormantBeats
		}
		if !now.Before(beat.Add(every)) {
			beat = now
			c.returnIdle()
			c.ping()
		}
		wait := beat.Add(every).Sub(now)
		if len(c.expiry) > 0 {
			wait = min(wait, c.expiry[0].due.Sub(now))
		}
		if !c.reportAt.IsZero() {
			wait = min(wait, c.reportAt.Sub(now))
		}
		if l := time.Duration(c.stale.Load()) - (c.since() - time.Duration(c.contact.Load())); l > 0 && !c.dormant {
			wait = min(wait, l)
		}
		c.mu.Unlock()
		// Leases that end within a few milliseconds of each other go together.
		timer.Reset(max(wait, 5*time.Millisecond))
		select {
		case <-timer.C:
		case <-c.keep:
		case <-ctx.Done():
			return
		}
	}
}

// ping sends a ping, and closes the connection of a silent server.
func (c *Client) ping() {
	if c.link == nil {
		return
	}
	if len(c.pings) >= 3 {
		c.link.shut(errSilent)
		return
	}
	c.lastID++
	c.pings[c.lastID] = c.since()
	c.link.post(&message{Type: msgPing, ID: c.lastID})
}

func (c *Client) tellLost(paths []string, why string) {
	if len(paths) > 0 && c.OnLost != nil {
		c.later(func() { c.OnLost(paths, why) })
	}
}

// later queues fn to be called without c.mu, in order. Called with c.mu held.
func (c *Client) later(fn func()) {
	c.notes = append(c.notes, fn)
	select {
	case c.note <- struct{}{}:
	default:
	}
}

// notify runs the callbacks, one at a time.
func (c *Client) notify(ctx context.Context) {
	for {
		c.mu.Lock()
		notes := c.notes
		c.notes = nil
		c.mu.Unlock()
		for _, fn := range notes {
			fn()
		}
		select {
		case <-c.note:
		case <-ctx.Done():
			return
		}
	}
}
