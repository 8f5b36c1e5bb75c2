package lockd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"polis/lockd/table"
)

// Server owns the lease table of one polisd and serves it to shims. Assign
// the fields between New and Open.
type Server struct {
	// Path is where Open makes the socket (mode 0600), unless Listener is set.
	Path string
	// Listener is a listening unix socket made by somebody else. Close closes it.
	Listener net.Listener
	// PeerUID is the only user id that may connect; 0 unless a test says otherwise.
	PeerUID uint32
	// StaleTimeout is how long leases outlive their session's connection.
	StaleTimeout time.Duration
	// Grace is how long a started server only lets sessions reclaim, unless
	// Expect tells which sessions there are. 0 means no grace period.
	Grace time.Duration
	// MaxLeases bounds the leases of one agent, MaxWaiters the waiting
	// requests, MaxConns the connections.
	MaxLeases, MaxWaiters, MaxConns int
	// FirstToken is below every token to be given, as is the clock in
	// microseconds. A caller that keeps Stats.LastToken over restarts has
	// tokens grow even if the clock is turned back.
	FirstToken uint64
	// OnEvent hears what happened, one call at a time. It may block: events
	// it is too slow for are counted in Stats and lost.
	OnEvent func(Event)
	Now     func() time.Time
	Log     *slog.Logger

	mu      sync.Mutex // guards all below but the atomics
	table   *table.Table
	conns   map[*conn]struct{}
	byAgent map[string]*conn
	waits   map[table.WaitID]waitTo
	unmerge map[string]bool // agents that have not yet answered msgUnmerge
	armed   time.Time       // when tick will look at the clock; zero: not by itself
	closed  bool

	stats  counters
	events chan Event
	wake   chan struct{}
	group  *errgroup.Group
	cancel context.CancelFunc
}

// waitTo is where the end of a wait is told: a request of a connection, or a
// call of Lock.
type waitTo struct {
	conn *conn
	id   uint64
	call chan table.Effect
}

type counters struct {
	granted, conflicts, waits, reclaimed, broken, stale, eventsLost atomic.Uint64
}

// Stats are the counters since Open, and the present sizes.
type Stats struct {
	Leases     int    `json:"leases"`
	Waiters    int    `json:"waiters"`
	Sessions   int    `json:"sessions"`
	InGrace    bool   `json:"in_grace"`
	LastToken  uint64 `json:"last_token"`
	Granted    uint64 `json:"granted"`
	Conflicts  uint64 `json:"conflicts"`
	Waits      uint64 `json:"waits"`
	Reclaimed  uint64 `json:"reclaimed"`
	Broken     uint64 `json:"broken"`
	Stale      uint64 `json:"stale"`
	EventsLost uint64 `json:"events_lost"`
}

// New returns a server with the default limits.
func New() *Server {
	return &Server{
		StaleTimeout: DefaultStaleTimeout, Grace: DefaultGrace,
		MaxLeases: 100_000, MaxWaiters: 1000, MaxConns: 256,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// Open starts serving. The grace period begins now.
func (s *Server) Open() error {
	l := s.Listener
	if l == nil {
		var err error
		if l, err = listen(s.Path); err != nil {
			return err
		}
	}
	// Tokens must grow over restarts and the table remembers none, so the
	// clock is the base. A microsecond per grant is never used up.
	s.table = table.New(max(uint64(max(s.Now().UnixMicro(), 1)), s.FirstToken))
	s.table.Now, s.table.StaleTimeout = s.Now, s.StaleTimeout
	s.table.MaxLeases, s.table.MaxWaiters = s.MaxLeases, s.MaxWaiters
	if s.Grace > 0 {
		s.table.StartGrace(s.Grace)
	}
	s.conns, s.byAgent, s.waits = map[*conn]struct{}{}, map[string]*conn{}, map[table.WaitID]waitTo{}
	s.unmerge = map[string]bool{}
	s.events, s.wake = make(chan Event, maxEvents), make(chan struct{}, 1)

	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.group, ctx = errgroup.WithContext(ctx)
	s.group.Go(func() error { return s.accept(ctx, l) })
	s.group.Go(func() error { s.tick(ctx); return nil })
	s.group.Go(func() error { s.tell(ctx); return nil })
	s.group.Go(func() error {
		// Close waits for this one too: closing unlinks the socket's path,
		// which by then could be the next server's.
		<-ctx.Done()
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("close lock socket: %w", err)
		}
		return nil
	})
	return nil
}

// Close ends all connections and waits for everything the server started.
// The leases are gone with it; the clients reclaim them from the next server.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed || s.group == nil {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	for id, w := range s.waits {
		if w.call != nil {
			w.call <- table.Effect{Kind: table.Refused, Wait: id, Err: ErrClosed}
		}
	}
	clear(s.waits)
	s.mu.Unlock()
	s.cancel()
	for _, c := range conns {
		c.link.shut(ErrClosed)
	}
	return s.group.Wait()
}

// listen makes the socket. A socket file that nobody listens on is a left-over
// of a crash and replaced; anything else at the path is not touched.
func listen(path string) (net.Listener, error) {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("lock socket: %w", err)
	case fi.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("lock socket: %s exists and is no socket", path)
	default:
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = c.Close() // only asked whether somebody is there
			return nil, fmt.Errorf("lock socket: another server listens on %s", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("lock socket: %w", err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("lock socket: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("lock socket: %w", err)
	}
	// Until here the mode is up to the umask; the peer's user id is checked
	// at every accept, so nobody gets in meanwhile.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("lock socket: %w", err), l.Close())
	}
	return l, nil
}

// accept takes connections until the listener is closed.
func (s *Server) accept(ctx context.Context, l net.Listener) error {
	for {
		nc, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = nc.Close() // too late to be served
			}
			return nil
		}
		if err != nil {
			// Out of descriptors, most likely: leases must go on being
			// served to those connected, so wait and try again.
			s.Log.Error("accept lock connection", "op", "accept", "err", err)
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if err := s.admit(nc); err != nil {
			s.Log.Warn("refused lock connection", "op", "accept", "err", err)
			_ = nc.Close() // it was refused; nothing is lost
		}
	}
}

// admit checks who is there and starts serving.
func (s *Server) admit(nc net.Conn) error {
	if err := checkPeer(nc, s.PeerUID); err != nil {
		return err
	}
	c := &conn{server: s, link: newLink(nc, "shim"), pending: map[uint64]table.WaitID{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if len(s.conns) >= s.MaxConns {
		return fmt.Errorf("%d connections: %w", len(s.conns), ErrLimit)
	}
	s.conns[c] = struct{}{}
	s.group.Go(func() error { c.serve(); return nil })
	return nil
}

func checkPeer(nc net.Conn, uid uint32) error {
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("peer of a %T has no credentials", nc)
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if credErr != nil {
		return fmt.Errorf("peer credentials: %w", credErr)
	}
	if cred.Uid != uid {
		return fmt.Errorf("peer has uid %d (pid %d), only %d may connect", cred.Uid, cred.Pid, uid)
	}
	return nil
}

// do runs fn on the table and carries out what follows from it.
func (s *Server) do(fn func(t *table.Table)) {
	s.mu.Lock()
	fn(s.table)
	s.settle()
	s.mu.Unlock()
}

// settle sends the table's effects where they belong. Called with s.mu held.
func (s *Server) settle() {
	for _, e := range s.table.Effects() {
		s.settleOne(e)
	}
	if next, due := s.table.Next(); due && (s.armed.IsZero() || next.Before(s.armed)) {
		s.armed = next
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (s *Server) settleOne(e table.Effect) {
	switch e.Kind {
	case table.Granted, table.Refused:
		s.settleWait(e)
	case table.Waiting:
		s.event(Event{Kind: EventWaiting, Waiter: e.Request.Holder, Op: e.Request.Op}.about(e.Lease))
		if c := s.byAgent[e.Lease.Holder]; c != nil && !e.Lease.Explicit {
			k := wirePath(e.Lease.Path)
			c.link.post(&message{Type: msgWaiter, Keys: []wireKey{k}, Agent: e.Request.Holder, Op: e.Request.Op})
		}
	case table.Dropped:
		kind := EventReleased
		if e.Why == table.WhyBroken {
			kind = EventBroken
			s.stats.broken.Add(1)
		}
		// Leases that end with their session are told in one event of the session.
		if e.Lease.Explicit || e.Why == table.WhyBroken || e.Why == table.WhyEvicted {
			s.event(Event{Kind: kind, Why: string(e.Why)}.about(e.Lease))
		}
		if c := s.byAgent[e.Lease.Holder]; c != nil && !e.Lease.Explicit {
			c.link.post(&message{Type: msgLost, Keys: []wireKey{wirePath(e.Lease.Path)}, Text: string(e.Why)})
		}
	case table.SessionStale:
		s.stats.stale.Add(1)
		s.event(Event{Kind: EventStale, Holder: e.Holder, Why: "connection lost"})
		s.Log.Warn("lease session lost its connection", "op", "session", "agent", e.Holder)
	case table.SessionGone:
		delete(s.unmerge, e.Holder)
		s.event(Event{Kind: EventGone, Holder: e.Holder, Why: string(e.Why)})
		s.Log.Info("lease session ended", "op", "session", "agent", e.Holder, "why", string(e.Why))
	case table.GraceOver:
		s.Log.Info("grace period over, new leases are granted", "op", "grace")
	}
}

func (s *Server) settleWait(e table.Effect) {
	if e.Kind == table.Refused {
		s.refused(e.Request, e.Err)
	} else {
		s.granted(e.Request, e.Leases)
	}
	to, ok := s.waits[e.Wait]
	if !ok {
		return
	}
	delete(s.waits, e.Wait)
	if to.call != nil {
		to.call <- e // has room for it
		return
	}
	delete(to.conn.pending, to.id)
	to.conn.link.post(reply(to.id, e.Leases, e.Err))
}

func reply(id uint64, leases []Lease, err error) *message {
	if err != nil {
		return errorMessage(id, err)
	}
	m := &message{Type: msgGrant, ID: id, Tokens: make([]uint64, len(leases))}
	for i, l := range leases {
		m.Tokens[i] = l.Token
	}
	return m
}

func (s *Server) granted(r table.Request, leases []Lease) {
	s.stats.granted.Add(1)
	if r.Explicit {
		for _, l := range leases {
			s.event(Event{Kind: EventGranted, Op: l.Op}.about(l))
		}
	}
}

func (s *Server) refused(r table.Request, err error) {
	var ce *ConflictError
	if !errors.As(err, &ce) {
		return
	}
	s.stats.conflicts.Add(1)
	s.event(Event{
		Kind: EventConflict, Workspace: r.Workspace, Path: ce.Path, Holder: ce.Holder, Waiter: r.Holder,
		Since: ce.Since, Token: ce.Token, Reason: ce.Reason, Op: r.Op, Pid: r.Pid, Mode: ce.Mode,
	})
}

// tick calls the table when time matters.
func (s *Server) tick(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		next, due := s.table.Next()
		if due && !next.After(s.Now()) {
			s.table.Tick()
			for _, e := range s.table.Effects() {
				s.settleOne(e)
			}
			next, due = s.table.Next()
		}
		s.armed = next // zero if nothing is due
		s.mu.Unlock()
		wait := time.Hour
		if due {
			wait = max(next.Sub(s.Now()), time.Millisecond)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}
