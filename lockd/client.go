package lockd

import (
	"context"
	"crypto/rand"
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
	// HoldFor returns how long a lease on a path outlives its last use; nil means DefaultHold for
	// all. It is called when a path is first taken.
	HoldFor func(path string) Hold
	// WaitFor returns how long to wait for another holder; nil means DefaultWait for all, 0
	// refuses at once.
	WaitFor func(path string) time.Duration
	// Bound is how long an Acquire waits for a server that cannot be
	// reached or does not answer, beyond the wait for the path.
	Bound time.Duration
	// StaleTimeout is how long leases are used without contact to the server. The server's own
	// applies if it is shorter.
	StaleTimeout time.Duration
	// Heartbeat is the interval of pings, at most a sixth of StaleTimeout; twelve times as long
	// while the client holds nothing and waits for nothing. Three unanswered ones end the
	// connection.
	Heartbeat time.Duration
	// Busy, if set, is called before an expired write lease is released: a mapping may still
	// write to the file when its last handle is closed. It is called again every second while it
	// returns true, and must not block for long.
	Busy func(path string) bool
	// Compare, if set, ends leases whose files are as they were.
	Compare *Compare
	// OnLost is called with leases that were taken away: broken by an administrator, or lost with
	// the session. Their tickets are invalid.
	OnLost func(paths []string, why string)
	// OnWaiter is called when another holder waits for a path this agent holds.
	OnWaiter func(Waiter)
	Now      func() time.Time
	Log      *slog.Logger

	id, secret string
	epoch      time.Time
	stale      atomic.Int64 // the shorter of both stale timeouts
	contact    atomic.Int64 // when the server last knew our session for certain, since epoch
	peer       atomic.Int64 // the version the server speaks
	lends      atomic.Int32 // how many directories are delegated to us
	changes    chan struct{}

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
	limit   int           // of leases, as the server announced
	dormant bool          // the keeper rests, see rests
	began   time.Duration // when this connection was begun, since epoch

	lent       map[string]*delegation // by directory
	unreported []*entry               // granted here, not yet reported
	freed      []wireKey              // released here, not yet reported
	reportAt   time.Time              // when the report is due; zero: nothing to report

	closed bool
	notes  []func()

	keep    chan struct{}
	note    chan struct{}
	stopped <-chan struct{}
	cancel  context.CancelFunc
	group   sync.WaitGroup
}

// Waiter is a holder that wants a path of the client's agent.
type Waiter struct {
	Path   string
	Holder string
	Op     string
}

// NewClient returns a client with the defaults.
func NewClient(path, workspace, agent string) *Client {
	return &Client{
		Path: path, Workspace: workspace, Agent: agent,
		Bound: DefaultBound, StaleTimeout: DefaultStaleTimeout, Heartbeat: DefaultHeartbeat,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), changes: make(chan struct{}, 1),
	}
}

// Changes signals, once for many changes, that the agent's leases or the requests that wait for
// them may have changed.
func (c *Client) Changes() <-chan struct{} { return c.changes }

func (c *Client) touch() {
	select {
	case c.changes <- struct{}{}:
	default:
	}
}

// Open starts the session in the background. It does not wait for the server: until it is
// connected, Acquire returns ErrUnavailable.
func (c *Client) Open() error {
	if c.Heartbeat <= 0 || c.StaleTimeout <= 0 || c.Bound <= 0 {
		return fmt.Errorf("lock client: %w: heartbeat %s, stale timeout %s, bound %s",
			ErrInvalid, c.Heartbeat, c.StaleTimeout, c.Bound)
	}
	c.id, c.secret = rand.Text(), rand.Text()
	c.epoch = c.Now()
	c.setStale(c.StaleTimeout)
	c.contact.Store(int64(-c.StaleTimeout)) // no lease is valid yet
	c.entries, c.calls = map[string]*entry{}, map[uint64]*call{}
	c.lent = map[string]*delegation{}
	c.claims, c.pings = map[uint64][]*entry{}, map[uint64]time.Duration{}
	c.ready, c.keep, c.note = make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.stopped = cancel, ctx.Done()
	c.group.Go(func() { c.connect(ctx) })
	c.group.Go(func() { c.keeper(ctx) })
	c.group.Go(func() { c.notify(ctx) })
	return nil
}

// Close releases all leases (bye), ends the session and waits for the client's goroutines.
// Waiting Acquires fail with ErrUnavailable.
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
		c.report() // what is held until the merge outlives us
		l.put(&message{Type: msgBye, ID: c.lastID})
	}
	c.mu.Unlock()
	if bye != nil {
		l.flush()
		select {
		case <-bye:
		case <-time.After(c.Bound): // the server will notice the closed connection
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

// trusted reports whether the server can still know our leases: a connection that broke right
// after the last answer is not yet stale there.
func (c *Client) trusted() bool {
	return c.since()-time.Duration(c.contact.Load()) < time.Duration(c.stale.Load())
}

func (c *Client) setStale(d time.Duration) { c.stale.Store(int64(min(d, c.StaleTimeout))) }

// heartbeat is the interval of pings in use.
func (c *Client) heartbeat() time.Duration {
	return min(c.Heartbeat, time.Duration(c.stale.Load())/6)
}
