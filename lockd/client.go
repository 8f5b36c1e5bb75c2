package lockd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Client is one agent's session with the lock server, in its shim. Assign the
// fields between NewClient and Open. All methods may be called concurrently.
type Client struct {
	// Path is the server's socket.
	Path             string
	Workspace, Agent string
	// HoldFor says how long a lease on a path outlives its last use; nil
	// means DefaultHold for all. It is asked when a path is first taken.
	HoldFor func(path string) Hold
	// WaitFor says how long to wait for another holder; nil means
	// DefaultWait for all, 0 refuses at once.
	WaitFor func(path string) time.Duration
	// Bound is how long an Acquire waits for a server that cannot be
	// reached or does not answer, beyond the wait for the path.
	Bound time.Duration
	// StaleTimeout is how long leases are used without hearing from the
	// server. The server's own counts if it is shorter.
	StaleTimeout time.Duration
	// Heartbeat is the interval of pings, at most a sixth of StaleTimeout.
	// Three unanswered ones end the connection.
	Heartbeat time.Duration
	// OnLost is told of leases that were taken away: broken by an
	// administrator, or lost with the session. Their tickets are invalid.
	OnLost func(paths []string, why string)
	// OnWaiter is told that somebody waits for a path this agent holds.
	OnWaiter func(Waiter)
	Now      func() time.Time
	Log      *slog.Logger

	id, secret string
	epoch      time.Time
	stale      atomic.Int64 // the shorter of both stale timeouts
	contact    atomic.Int64 // when the server was last known to know us, since epoch

	mu      sync.Mutex
	link    *link         // nil without a connection
	ready   chan struct{} // closed while requests may be sent
	open    bool          // ready is closed
	entries map[string]*entry
	expiry  expiry
	calls   map[uint64]*call
	claims  map[uint64][]*entry
	pings   map[uint64]time.Duration
	lastID  uint64
	closed  bool
	notes   []func()

	keep    chan struct{}
	note    chan struct{}
	stopped <-chan struct{}
	cancel  context.CancelFunc
	group   sync.WaitGroup
}

// Waiter is somebody who wants a path that the client's agent holds.
type Waiter struct {
	Path   string
	Holder string
	Op     string
}

// call is a running acquire.
type call struct {
	wants   []want
	entries []*entry // of wants; all pinned
	asked   []int    // indices of wants that were sent
	left    bool     // nobody waits for the end any more
	leases  []Lease  // answer to a query
	err     error
	done    chan struct{}
}

// errDisconnected ends calls whose connection is lost; Acquire tries again.
var errDisconnected = errors.New("connection to lock server lost")

// NewClient returns a client with the defaults.
func NewClient(path, workspace, agent string) *Client {
	return &Client{
		Path: path, Workspace: workspace, Agent: agent,
		Bound: DefaultBound, StaleTimeout: DefaultStaleTimeout, Heartbeat: DefaultHeartbeat,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// Open starts the session in the background. It does not wait for the server:
// until it is there, Acquire refuses with ErrUnavailable.
func (c *Client) Open() error {
	if c.Heartbeat <= 0 || c.StaleTimeout <= 0 || c.Bound <= 0 {
		return fmt.Errorf("lock client: %w: heartbeat %s, stale timeout %s, bound %s",
			ErrInvalid, c.Heartbeat, c.StaleTimeout, c.Bound)
	}
	c.id, c.secret = rand.Text(), rand.Text()
	c.epoch = c.Now()
	c.setStale(c.StaleTimeout)
	c.contact.Store(int64(-c.StaleTimeout)) // nothing is trusted yet
	c.entries, c.calls = map[string]*entry{}, map[uint64]*call{}
	c.claims, c.pings = map[uint64][]*entry{}, map[uint64]time.Duration{}
	c.ready, c.keep, c.note = make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.stopped = cancel, ctx.Done()
	c.group.Go(func() { c.connect(ctx) })
	c.group.Go(func() { c.keeper(ctx) })
	c.group.Go(func() { c.notify(ctx) })
	return nil
}

// Close gives all leases back (bye), ends the session and waits for the
// client's goroutines. Waiting Acquires fail with ErrUnavailable.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed || c.cancel == nil {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	l := c.link
	var bye chan struct{}
	if l != nil && c.open {
		c.lastID++
		cl := &call{done: make(chan struct{})}
		c.calls[c.lastID] = cl
		bye = cl.done
		l.put(&message{Type: msgBye, ID: c.lastID})
	}
	c.mu.Unlock()
	if bye != nil {
		l.flush()
		select {
		case <-bye:
		case <-time.After(c.Bound): // the server will see the connection go
		}
	}
	c.cancel()
	if l != nil {
		l.shut(ErrClosed)
	}
	c.group.Wait()
	return nil
}

// since returns the time since Open, on the monotonic clock.
func (c *Client) since() time.Duration { return c.Now().Sub(c.epoch) }

// trusted says whether the server can still know our leases: a connection
// that broke right after the last answer is not yet stale there.
func (c *Client) trusted() bool {
	return c.since()-time.Duration(c.contact.Load()) < time.Duration(c.stale.Load())
}

func (c *Client) setStale(d time.Duration) { c.stale.Store(int64(min(d, c.StaleTimeout))) }

// heartbeat is the interval of pings in use.
func (c *Client) heartbeat() time.Duration {
	return min(c.Heartbeat, time.Duration(c.stale.Load())/6)
}

// Acquire takes the leases of r, all or nothing. What the agent holds already
// costs no round trip. Errors: *ConflictError if another holder has a path for
// longer than the wait, ErrUnavailable if the server cannot be asked within
// Bound, ErrLimit, ErrInvalid, or the error of ctx.
func (c *Client) Acquire(ctx context.Context, r Request) (*Ticket, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
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
	if err := r.check(ws); err != nil {
		return nil, err
	}
	return c.ask(ctx, &r, ws)
}

// ask is the way over the server.
func (c *Client) ask(ctx context.Context, r *Request, ws []want) (*Ticket, error) {
	longest := time.Duration(0)
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
	start := c.Now()
	limit := time.NewTimer(longest + c.Bound)
	defer limit.Stop()
	reach := time.NewTimer(c.Bound)
	defer reach.Stop()
	for {
		c.mu.Lock()
		if t := c.cached(ws); t != nil {
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
		// A second try, after a lost connection, has less time.
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
	cl := &call{wants: ws, entries: make([]*entry, len(ws)), done: make(chan struct{})}
	m := &message{Type: msgAcquire, Op: r.Op, Pid: r.Pid}
	trusted := c.trusted()
	for i, w := range ws {
		e := c.entries[w.path]
		if e == nil {
			e = &entry{path: w.path, hold: w.hold, mode: w.mode}
			c.entries[w.path] = e
		}
		e.pins++
		cl.entries[i] = e
		if trusted && e.covers(w) {
			continue
		}
		cl.asked = append(cl.asked, i)
		k := wirePath(w.path)
		k.Tree, k.Read, k.Merge = w.tree, w.mode == Read, w.hold < 0
		k.Wait = millis(w.wait - spent)
		m.Keys = append(m.Keys, k)
	}
	c.lastID++
	m.ID = c.lastID
	c.calls[m.ID] = cl
	c.link.put(m)
	return cl, c.link, m.ID
}

// leave gives up on a running call. Its pins go when the server has answered,
// so that an unwanted grant is given back.
func (c *Client) leave(id uint64, cl *call, l *link, err error) error {
	c.mu.Lock()
	select {
	case <-cl.done: // the answer was faster
		if cl.err == nil {
			c.unpin(cl.entries)
		}
		c.mu.Unlock()
	default:
		cl.left = true
		l.put(&message{Type: msgCancel, ID: id})
		c.mu.Unlock()
		l.wake()
	}
	return err
}

// finish ends a call. Called with c.mu held.
func (c *Client) finish(id uint64, tokens []uint64, err error) {
	cl := c.calls[id]
	if cl == nil {
		return
	}
	delete(c.calls, id)
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
				e.used = true
			}
		}
	}
	if err != nil || cl.left {
		c.unpin(cl.entries)
	}
	cl.err = err
	close(cl.done)
}

// grant notes that wants[i] of a call is held now.
func (c *Client) grant(cl *call, i int, token uint64, now time.Time) {
	w, e := cl.wants[i], cl.entries[i]
	cur := c.entries[w.path]
	if cur == nil {
		// The entry was lost or forgotten while this request was on its way.
		cur = &entry{path: w.path, hold: w.hold}
		c.entries[w.path] = cur
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
	cur.token.Store(token)
}
