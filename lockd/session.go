package lockd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"polis/lockd/table"
)

// Pauses between attempts to connect; short at first, as a restarting daemon is back within a
// moment.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// connect keeps a connection until ctx ends.
func (c *Client) connect(ctx context.Context) {
	pause, warned := firstPause, false
	for {
		served, err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if served {
			pause, warned = firstPause, false
		}
		if !warned {
			c.Log.Warn("no lock server", "op", "connect", "agent", c.Agent, "err", err)
			warned = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// session runs one connection: hello, reclaim, then messages until it ends. served reports
// whether it came that far.
func (c *Client) session(ctx context.Context) (served bool, err error) {
	d := net.Dialer{Timeout: c.Bound}
	nc, err := d.DialContext(ctx, "unix", c.Path)
	if err != nil {
		return false, err
	}
	l := newLink(nc, "lock server")
	defer func() { l.shut(ErrClosed) }()
	stop := context.AfterFunc(ctx, func() { l.shut(ErrClosed) })
	defer stop()

	r := bufio.NewReaderSize(nc, 32<<10)
	started := c.since()
	if err := c.hello(l, r); err != nil {
		return false, err
	}
	done := make(chan struct{})
	defer close(done)
	c.group.Go(func() { l.writer(done) })

	if err := c.attach(l, started); err != nil {
		return false, err
	}
	defer c.detach(l)
	l.flush()
	var buf []byte
	for {
		var m message
		if buf, err = readFrame(r, buf, &m); err == nil {
			err = c.handle(l, &m)
		}
		if err != nil {
			if cause := l.cause(); cause != nil {
				err = cause
			}
			c.mu.Lock()
			served = c.open
			c.mu.Unlock()
			return served, err
		}
	}
}

func (c *Client) hello(l *link, r *bufio.Reader) error {
	if err := l.conn.SetReadDeadline(time.Now().Add(c.Bound)); err != nil {
		return err
	}
	l.put(&message{
		Type: msgHello, Version: baseVersion, Speaks: protocolVersion, Agent: c.Agent, Workspace: c.Workspace,
		Session: c.id, Secret: c.secret,
	})
	l.flush()
	var m message
	if _, err := readFrame(r, nil, &m); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	if m.Type != msgOK {
		return fmt.Errorf("hello: %w", m.err(c.Workspace))
	}
	c.peer.Store(int64(m.Version))
	c.mu.Lock()
	c.limit = m.Limit
	c.mu.Unlock()
	if m.Stale > 0 {
		c.setStale(time.Duration(m.Stale) * time.Millisecond)
		c.wakeKeeper()
	}
	return l.conn.SetReadDeadline(time.Time{})
}

// attach makes l the connection and sends the claims. No request is sent before the server has
// answered them; only then is it certain that it knows us: a restarted server knows no lease that
// is not claimed in time.
func (c *Client) attach(l *link, started time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.forgetStale()
	c.link = l
	c.began = started
	// All that is held is claimed one by one; other holders that want a path in our directories
	// have waited long enough.
	c.unlend()
	c.unreported, c.freed, c.reportAt = nil, nil, time.Time{}
	var keys []wireKey
	var held []*entry
	for _, e := range c.entries {
		if !e.held {
			continue
		}
		e.unreported, e.reported = false, true
		keys = append(keys, e.claim())
		held = append(held, e)
	}
	chunks(keys, func(part []wireKey) {
		c.lastID++
		c.claims[c.lastID] = held[:len(part)]
		held = held[len(part):]
		l.put(&message{Type: msgReclaim, ID: c.lastID, Keys: part})
	})
	c.lastID++
	c.claims[c.lastID] = nil // its answer ends the reclaim
	l.put(&message{Type: msgReclaimed, ID: c.lastID})
	return nil
}

// detach ends the use of a connection and fails its pending requests.
func (c *Client) detach(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		return
	}
	c.link = nil
	c.rouse()
	if c.open {
		c.open = false
		c.ready = make(chan struct{})
	}
	clear(c.claims)
	clear(c.pings)
	for id := range c.calls {
		c.finish(id, nil, errDisconnected)
	}
}

// handle processes one message of the server.
func (c *Client) handle(l *link, m *message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.Type {
	case msgGrant:
		c.finish(m.ID, m.Tokens, nil)
		c.lend(m.Lent)
	case msgOK:
		if _, ok := c.claims[m.ID]; ok {
			delete(c.claims, m.ID)
			c.contact.Store(max(c.contact.Load(), int64(c.began)))
			c.open = true
			close(c.ready)
			c.touch()
			c.Log.Info("lease session", "op", "connect", "agent", c.Agent, "leases", len(c.entries))
			break
		}
		c.finish(m.ID, nil, nil)
	case msgLeases:
		if cl := c.calls[m.ID]; cl != nil {
			cl.leases, cl.total = m.Leases, m.Total
		}
		c.finish(m.ID, nil, nil)
	case msgReclaimed:
		return c.reclaimed(m)
	case msgError:
		err := m.err(c.Workspace)
		if errors.Is(err, table.ErrNoSession) {
			// The server does not know this session any more: send hello again.
			return err
		}
		if c.calls[m.ID] == nil {
			return fmt.Errorf("unexpected error: %w", err)
		}
		c.finish(m.ID, nil, err)
	case msgPong:
		if sent, ok := c.pings[m.ID]; ok {
			delete(c.pings, m.ID)
			c.contact.Store(int64(sent))
		}
	case msgLost:
		if len(m.Keys) == 0 {
			c.loseAll(m.Text)
			return fmt.Errorf("session ended by the server (%s)", m.Text)
		}
		var paths []string
		for i := range m.Keys {
			if e := c.entries[m.Keys[i].path()]; e != nil && e.held {
				c.lose(e)
				paths = append(paths, e.path)
			}
		}
		c.tellLost(paths, m.Text)
	case msgUnmerge:
		for _, e := range c.entries {
			if e.hold < 0 {
				if over := c.letGo(e, nil); over != nil {
					c.release(over)
				}
			}
		}
		l.post(&message{Type: msgUnmerge})
	case msgRecall:
		c.recalled(m)
	case msgChanged:
		c.touch()
	case msgWaiter:
		c.touch()
		if len(m.Keys) == 1 && c.OnWaiter != nil && len(c.notes) < maxNotes {
			w := Waiter{Path: m.Keys[0].path(), Holder: m.Agent, Op: m.Op}
			c.later(func() { c.OnWaiter(w) })
		}
	default:
		// A newer server may send messages that this shim does not know.
		c.Log.Debug("unknown message of the lock server", "op", m.Type, "agent", c.Agent)
	}
	return nil
}
