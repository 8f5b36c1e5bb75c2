package lockd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"polis/lockd/table"
)

// helloTimeout is how long a new connection may take to send hello.
const helloTimeout = 5 * time.Second

// conn is one shim's connection, at the server.
type conn struct {
	server *Server
	link   *link

	// Set by hello, then constant.
	workspace, agent, session string
	// peer is the version the client speaks.
	peer int

	pending map[uint64]table.WaitID // guarded by Server.mu
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() { c.link.writer(done) })
	err := c.read()
	if cause := c.link.cause(); cause != nil {
		err = cause
	}
	c.link.shut(err)
	close(done)
	writer.Wait()

	s := c.server
	s.do(func(t *table.Table) {
		delete(s.conns, c)
		// The client is gone and gets no answer to these.
		for _, id := range slices.Collect(maps.Values(c.pending)) {
			t.Cancel(id)
		}
		// After a resume on another connection this one is not the agent's any more.
		if c.agent != "" && s.byAgent[c.agent] == c {
			delete(s.byAgent, c.agent)
			t.Disconnect(c.agent, c.session)
		}
	})
	if !errors.Is(err, io.EOF) && !errors.Is(err, ErrClosed) {
		s.Log.Warn("lock connection ended", "op", "session", "agent", c.agent, "err", err)
	}
}

func (c *conn) read() error {
	r := bufio.NewReaderSize(c.link.conn, 32<<10)
	if err := c.link.conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	var buf []byte
	for {
		var m message
		var err error
		if buf, err = readFrame(r, buf, &m); err != nil {
			return err
		}
		if c.agent == "" {
			if err = c.hello(&m); err == nil {
				// From here on silence is fine: a connected session keeps its leases, even if the
				// shim is stopped.
				err = c.link.conn.SetReadDeadline(time.Time{})
			}
		} else {
			err = c.handle(&m)
		}
		c.link.flush()
		if err != nil {
			return err
		}
	}
}

// hello binds the connection to a session.
func (c *conn) hello(m *message) error {
	if m.Type != msgHello || m.Version != baseVersion {
		err := fmt.Errorf("%w: first message is %q, version %d", ErrInvalid, m.Type, m.Version)
		c.link.put(errorMessage(m.ID, err))
		return err
	}
	s := c.server
	var err error
	s.do(func(t *table.Table) {
		var resumed bool
		if resumed, err = t.Hello(m.Workspace, m.Agent, m.Session, m.Secret); err != nil {
			c.link.put(errorMessage(m.ID, err))
			return
		}
		if old := s.byAgent[m.Agent]; old != nil {
			old.link.shut(fmt.Errorf("session continues on another connection: %w", ErrClosed))
		}
		c.workspace, c.agent, c.session, c.peer = m.Workspace, m.Agent, m.Session, max(m.Version, m.Speaks)
		s.byAgent[c.agent] = c
		c.link.put(&message{Type: msgOK, ID: m.ID, Version: protocolVersion, Resumed: resumed, Stale: s.StaleTimeout.Milliseconds(), Limit: s.MaxLeases})
	})
	if err == nil {
		s.Log.Info("lease session", "op", "session", "agent", c.agent)
	}
	return err
}

// errReplaced ends a connection that is no longer its agent's.
var errReplaced = fmt.Errorf("session ended or continues on another connection: %w", ErrClosed)

// do runs fn on the table if this is still its agent's connection. Messages that an old
// connection left unread must not take effect: the client has reclaimed since, and an earlier
// release would take what it holds now.
func (c *conn) do(fn func(t *table.Table)) error {
	err := errReplaced
	s := c.server
	s.do(func(t *table.Table) {
		if s.byAgent[c.agent] == c {
			err = nil
			fn(t)
		}
	})
	return err
}

// handle processes one message. An error ends the connection: the peer violates the protocol.
func (c *conn) handle(m *message) error {
	s := c.server
	switch m.Type {
	case msgAcquire:
		return c.acquire(m)
	case msgRelease:
		paths := make([]string, len(m.Keys))
		for i := range m.Keys {
			paths[i] = m.Keys[i].path()
		}
		var err error
		return errors.Join(c.do(func(t *table.Table) {
			err = t.Release(c.workspace, c.agent, c.session, paths...)
		}), err)
	case msgCancel:
		return c.do(func(t *table.Table) {
			if id, ok := c.pending[m.ID]; ok {
				t.Cancel(id)
			}
		})
	case msgPing:
		return c.do(func(*table.Table) { c.link.put(&message{Type: msgPong, ID: m.ID}) })
	case msgReclaim:
		return c.reclaim(m)
	case msgReclaimed:
		var err error
		return errors.Join(c.do(func(t *table.Table) {
			if err = t.Reclaimed(c.agent, c.session); err != nil {
				return
			}
			c.link.put(&message{Type: msgOK, ID: m.ID})
			if s.unmerge[c.agent] { // the first one may be lost with its connection
				c.link.put(&message{Type: msgUnmerge})
			}
		}), err)
	case msgUnmerge:
		return c.do(func(*table.Table) { delete(s.unmerge, c.agent) })
	case msgQuery:
		return c.query(m)
	case msgLock:
		return c.lock(m)
	case msgUnlock:
		return c.unlock(m)
	case msgOwn:
		return c.own(m)
	case msgReport:
		return c.report(m)
	case msgReturn:
		return c.giveBack(m)
	case msgBye:
		return c.do(func(t *table.Table) {
			delete(s.byAgent, c.agent)
			t.Bye(c.agent, c.session)
			s.toSave() // what is kept until the merge
			c.link.put(&message{Type: msgOK, ID: m.ID})
		})
	}
	return fmt.Errorf("%w: message %q", ErrInvalid, m.Type)
}

// query answers who holds a path.
func (c *conn) query(m *message) error {
	if len(m.Keys) != 1 {
		return fmt.Errorf("%w: query of %d paths", ErrInvalid, len(m.Keys))
	}
	return c.do(func(t *table.Table) {
		ls, err := t.Holders(c.workspace, m.Keys[0].path(), maxHolders)
		if err != nil {
			c.link.put(errorMessage(m.ID, err))
			return
		}
		c.link.put(&message{Type: msgLeases, ID: m.ID, Leases: ls})
	})
}

func (c *conn) acquire(m *message) error {
	r := table.Request{
		Workspace: c.workspace, Holder: c.agent, Session: c.session, Op: m.Op, Pid: m.Pid,
		Keys: make([]table.Key, len(m.Keys)),
	}
	for i := range m.Keys {
		k, err := m.Keys[i].key()
		if err != nil {
			c.link.put(errorMessage(m.ID, err))
			return nil
		}
		if i > 0 && r.Keys[i-1].Path >= k.Path {
			// Tokens are returned in the order of the keys, so this must be the table's.
			c.link.put(errorMessage(m.ID, fmt.Errorf("%w: keys are not sorted", ErrInvalid)))
			return nil
		}
		r.Keys[i] = k
	}
	return c.enter(m.ID, r)
}

// enter takes what a request wants, or queues it.
func (c *conn) enter(id uint64, r table.Request) error {
	s := c.server
	var err error
	gone := c.do(func(t *table.Table) {
		if _, dup := c.pending[id]; dup {
			err = fmt.Errorf("%w: request %d is still running", ErrInvalid, id)
			return
		}
		res, refusal := t.Acquire(r)
		switch {
		case refusal != nil:
			s.refused(r, refusal)
		case res.Wait != 0:
			s.stats.waits.Add(1)
			s.waits[res.Wait] = waitTo{conn: c, id: id}
			c.pending[id] = res.Wait
			return
		default:
			s.granted(r, res.Leases)
		}
		a := reply(id, res.Leases, refusal)
		if refusal == nil {
			a.Lent = c.delegate(t, r)
		}
		c.link.put(a)
	})
	return errors.Join(gone, err)
}

func (c *conn) reclaim(m *message) error {
	s := c.server
	claims := make([]table.Claim, len(m.Keys))
	for i := range m.Keys {
		w := &m.Keys[i]
		k, err := w.key()
		if err != nil {
			return err
		}
		claims[i] = table.Claim{Key: k, Token: w.Token, Since: time.UnixMilli(w.Since)}
	}
	var err error
	gone := c.do(func(t *table.Table) {
		var tokens []uint64
		if tokens, err = t.Reclaim(c.agent, c.session, claims); err != nil {
			c.link.put(errorMessage(m.ID, err))
			return
		}
		for _, token := range tokens {
			if token != 0 {
				s.stats.reclaimed.Add(1)
			}
		}
		c.link.put(&message{Type: msgReclaimed, ID: m.ID, Tokens: tokens})
	})
	return errors.Join(gone, err)
}
