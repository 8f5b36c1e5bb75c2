package netbridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultMaxConns bounds a port map; more wait in the kernel's backlog.
	DefaultMaxConns = 512
	// DefaultBudget bounds what all maps of an agent carry at a time. A
	// connection costs up to six descriptors and 50 KiB.
	DefaultBudget = 1024
)

// Budget bounds the connections and UDP peers of several maps together. A nil Budget has no
// bound.
type Budget chan struct{}

// NewBudget makes room for n.
func NewBudget(n int) Budget { return make(Budget, n) }

// wait takes a place, or returns false when ctx ends.
func (b Budget) wait(ctx context.Context) bool {
	if b == nil {
		return true
	}
	select {
	case b <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// try takes a place if there is one.
func (b Budget) try() bool {
	select {
	case b <- struct{}{}:
		return true
	default:
		return b == nil
	}
}

func (b Budget) giveBack() {
	if b != nil {
		<-b
	}
}

// Forwarder maps a TCP port of the host to a TCP port of an agent. The server
// inside may be bound to 127.0.0.1, ::1, 0.0.0.0, :: or the agent's address.
//
// Set the fields, then Open; Close ends it and waits.
type Forwarder struct {
	// NS is the agent's namespace. The forwarder does not close it.
	NS *NS
	// External is the host's side. An invalid address means 127.0.0.1; port 0
	// lets the kernel choose. 0.0.0.0 is all of IPv4, :: all of both.
	External netip.AddrPort
	// Internal is the agent's port.
	Internal uint16
	// AgentAddr is the agent's own address, tried last; may be invalid.
	AgentAddr netip.Addr
	// MaxConns bounds the connections at a time; DefaultMaxConns if 0.
	MaxConns int
	// Budget is shared with the agent's other maps; may be nil.
	Budget Budget
	// Log receives failures that are not the peers' own; slog.Default if nil.
	Log *slog.Logger

	ln     net.Listener
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	slots  chan struct{}
	dial   func(context.Context) (net.Conn, error)
	// accepted gets the client's end and the result of dial; may be nil.
	accepted func(from netip.AddrPort, err error)
	bufs     *buffers

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// Open binds the external port and starts to forward. ErrPortInUse: another
// program has it. ctx bounds Open only.
func (f *Forwarder) Open(ctx context.Context) error {
	at, err := hostSide(f.External, f.Internal)
	if err != nil {
		return err
	}
	ln, err := listenHost(ctx, at)
	if err != nil {
		return err
	}
	server := &Server{NS: f.NS, Port: f.Internal, AgentAddr: f.AgentAddr}
	f.start(ctx, ln, server.Dial)
	return nil
}

// hostSide returns the address on the host of a map to an agent's port. An invalid address means
// 127.0.0.1.
func hostSide(external netip.AddrPort, internal uint16) (netip.AddrPort, error) {
	if internal == 0 {
		return netip.AddrPort{}, fmt.Errorf("%w: internal port 0", ErrPortRange)
	}
	addr := external.Addr()
	if !addr.IsValid() {
		addr = loopback()
	}
	return netip.AddrPortFrom(addr, external.Port()), nil
}

// start accepts connections on ln and relays each to one that dial opens.
func (f *Forwarder) start(ctx context.Context, ln net.Listener, dial func(context.Context) (net.Conn, error)) {
	if f.Log == nil {
		f.Log = slog.Default()
	}
	if f.MaxConns <= 0 {
		f.MaxConns = DefaultMaxConns
	}
	f.ln, f.dial = ln, dial
	f.slots, f.conns = make(chan struct{}, f.MaxConns), map[net.Conn]struct{}{}
	f.bufs = newBuffers()
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.wg.Go(f.accept)
}

// Addr is where the map is reached on the host, with the port chosen.
func (f *Forwarder) Addr() netip.AddrPort {
	return f.ln.Addr().(*net.TCPAddr).AddrPort()
}

// Close stops listening, cuts every connection and waits for all goroutines.
func (f *Forwarder) Close() error {
	f.mu.Lock()
	if f.closed || f.ln == nil {
		f.mu.Unlock()
		f.wg.Wait()
		return nil
	}
	f.closed = true
	for c := range f.conns {
		abort(c)
	}
	f.mu.Unlock()
	f.cancel(ErrClosed)
	err := f.ln.Close()
	f.wg.Wait()
	return err
}

// track lets Close reach the connection; false means that it is too late.
func (f *Forwarder) track(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.conns[c] = struct{}{}
	return true
}

func (f *Forwarder) forget(c net.Conn) {
	f.mu.Lock()
	delete(f.conns, c)
	f.mu.Unlock()
	_ = c.Close() // the peers see how it ended; no other reader of this error is left
}

func (f *Forwarder) accept() {
	for {
		select {
		case f.slots <- struct{}{}:
		case <-f.ctx.Done():
			return
		}
		c, err := f.ln.Accept()
		if err != nil {
			<-f.slots
			if f.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors or memory, or the peer closed already.
			f.Log.Warn("cannot accept", "op", "net.forward", "err", err)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-f.ctx.Done():
				return
			}
			continue
		}
		f.wg.Go(func() {
			defer func() { <-f.slots }()
			f.serve(c)
		})
	}
}

func (f *Forwarder) serve(outer net.Conn) {
	if !f.track(outer) {
		abort(outer)
		return
	}
	defer f.forget(outer)
	if !f.Budget.wait(f.ctx) {
		abort(outer)
		return
	}
	defer f.Budget.giveBack()
	inner, err := f.dial(f.ctx)
	if f.accepted != nil {
		f.accepted(outer.RemoteAddr().(*net.TCPAddr).AddrPort(), err)
	}
	if err != nil {
		// A reset is what the client would see if it had dialled the port itself.
		abort(outer)
		if !errors.Is(err, unix.ECONNREFUSED) && f.ctx.Err() == nil {
			f.Log.Warn("cannot reach the port behind a map", "op", "net.forward", "port", f.Internal, "err", err)
		}
		return
	}
	if !f.track(inner) {
		abort(inner)
		return
	}
	defer f.forget(inner)
	relay(outer.(*net.TCPConn), inner.(*net.TCPConn), f.bufs)
}

// abort closes with a reset instead of an orderly end.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // it may be closed already, which is as good
	}
	_ = c.Close()
}
