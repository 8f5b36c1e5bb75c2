package lockd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"polis/lockd/table"
)

// Server owns the lease table of one polisd and serves it to shims. Assign
// the fields between New and Open.
type Server struct {
	// Path is where Open makes the socket (mode 0600), unless Listener is set.
	Path string
	// Listener is a listening unix socket that the caller made. Close closes it.
	Listener net.Listener
	// PeerUID is the only user id that may connect; 0 except in tests.
	PeerUID uint32
	// StaleTimeout is how long leases outlive their session's connection.
	StaleTimeout time.Duration
	// Grace is how long a started server only lets sessions reclaim, unless Expect names the
	// sessions. 0 means no grace period.
	Grace time.Duration
	// Living reports whether the shim of an agent runs; the grace period does not wait for one
	// that has ended. nil: it waits for all. It is called without a lock held.
	Living func(ctx context.Context, agent string) bool
	// GraceWait is how long a request waits at least for the end of the grace period, before it
	// fails with ErrUnavailable.
	GraceWait time.Duration
	// MaxLeases bounds the leases of one agent, MaxExplicit the explicit ones of all, MaxWaiters
	// the waiting requests of one agent, MaxConns the connections, MaxByName the explicit leases
	// that one agent takes itself.
	MaxLeases, MaxExplicit, MaxWaiters, MaxConns, MaxByName int
	// ExplicitMax bounds how long an explicit lease lasts that an agent takes itself, renewals
	// included; it is also the default. 0 means no bound.
	ExplicitMax time.Duration
	// Kept is what an earlier server last passed to Save: tokens continue above its Token even if
	// the clock is turned back, and its leases are restored.
	Kept Kept
	// Delegate lets an agent that is alone in a directory grant leases there itself; its client
	// reports them a moment later (see ReportEvery).
	Delegate bool
	// Save stores what must outlive a restart; nil stores nothing. It is called after changes,
	// one call at a time, and may block.
	Save func(Kept) error
	// Keep selects the explicit leases that are saved; nil means all.
	Keep func(Lease) bool
	// OnEvent gets the events, one call at a time. It may block: events it is too slow for are
	// counted in Stats and lost.
	OnEvent func(Event)
	// OnChanges gets the leases that were granted or ended, of one holder at a time. It may block, as
	// OnEvent.
	OnChanges func(Changes)
	Now       func() time.Time
	Log       *slog.Logger

	mu      sync.Mutex // guards all below but the atomics
	table   *table.Table
	conns   map[*conn]struct{}
	byAgent map[string]*conn
	waits   map[table.WaitID]waitTo
	unmerge map[string]bool // agents that have not yet answered msgUnmerge
	armed   time.Time       // when tick reads the clock; zero: no deadline
	saving  saving
	back    chan struct{} // closed at the next change, if a goroutine waits for one
	closed  bool
	changes map[holderOf]*changes

	changesDue chan struct{}

	stats  counters
	events chan Event
	wake   chan struct{}
	group  *errgroup.Group
	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
}

// waitTo gets the result of a wait: a request of a connection, or a call of Lock.
type waitTo struct {
	conn *conn
	id   uint64
	call chan table.Effect
}

type counters struct {
	granted, conflicts, waits, reclaimed, broken, stale, delegated, recalled, eventsLost atomic.Uint64
}

// Stats are the counters since Open, and the present sizes.
type Stats struct {
	Leases    int    `json:"leases"`
	Waiters   int    `json:"waiters"`
	Sessions  int    `json:"sessions"`
	InGrace   bool   `json:"in_grace"`
	LastToken uint64 `json:"last_token"`
	Granted   uint64 `json:"granted"`
	Conflicts uint64 `json:"conflicts"`
	Waits     uint64 `json:"waits"`
	Reclaimed uint64 `json:"reclaimed"`
	Broken    uint64 `json:"broken"`
	Stale     uint64 `json:"stale"`
	// Delegations is how many directories are delegated, Delegated how many ever were, and
	// Recalled how many were recalled.
	Delegations int    `json:"delegations"`
	Delegated   uint64 `json:"delegated"`
	Recalled    uint64 `json:"recalled"`
	EventsLost  uint64 `json:"events_lost"`
}

// New returns a server with the default limits.
func New() *Server {
	return &Server{
		StaleTimeout: DefaultStaleTimeout, Grace: DefaultGrace, GraceWait: DefaultBound, Delegate: true,
		MaxLeases: 100_000, MaxExplicit: 10_000, MaxWaiters: 256, MaxConns: 256, MaxByName: 64, ExplicitMax: DefaultExplicitMax,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// Open starts serving. The grace period begins now.
func (s *Server) Open() error {
	l := s.Listener
	if l == nil {
		var err error
		if l, err = Listen(s.Path); err != nil {
			return err
		}
	}
	// Tokens must grow over restarts and the table remembers none, so the
	// clock is the base. A microsecond per grant is never used up.
	s.table = table.New(max(uint64(max(s.Now().UnixMicro(), 1)), s.Kept.Token))
	s.table.Now, s.table.StaleTimeout, s.table.GraceWait = s.Now, s.StaleTimeout, s.GraceWait
	s.table.MaxLeases, s.table.MaxExplicit, s.table.MaxWaiters = s.MaxLeases, s.MaxExplicit, s.MaxWaiters
	s.saving = saving{want: 1, tries: make(chan struct{}), kick: make(chan struct{}, 1)}
	s.watchChanges(s.table)
	s.restore()
	if s.Grace > 0 {
		s.table.StartGrace(s.Grace)
	}
	s.conns, s.byAgent, s.waits = map[*conn]struct{}{}, map[string]*conn{}, map[table.WaitID]waitTo{}
	s.unmerge = map[string]bool{}
	s.events, s.wake = make(chan Event, maxEvents), make(chan struct{}, 1)

	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.group, ctx = errgroup.WithContext(ctx)
	s.ctx = ctx
	s.group.Go(func() error { return s.accept(ctx, l) })
	s.group.Go(func() error { s.tick(ctx); return nil })
	s.group.Go(func() error { s.deliver(ctx); return nil })
	if s.Save != nil {
		s.group.Go(func() error { s.saver(ctx); return nil })
	}
	s.group.Go(func() error {
		// Close waits for this one too: closing unlinks the socket's path, which by then could be
		// the next server's.
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

// do runs fn on the table and sends its effects.
func (s *Server) do(fn func(t *table.Table)) {
	s.mu.Lock()
	fn(s.table)
	s.settle()
	s.mu.Unlock()
}

// tick calls the table when a deadline passes.
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
			s.moved()
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
