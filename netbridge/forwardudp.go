package netbridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultMaxPeers bounds the peers of a UDP map at a time; one more takes
	// the place of the one that has been silent longest.
	DefaultMaxPeers = 256
	// DefaultIdle is how long a peer may be silent, both ways, before it is
	// forgotten.
	DefaultIdle = time.Minute

	maxDatagram = 65535
)

// UDPForwarder maps a UDP port of the host to a UDP port of an agent. Every
// peer outside gets a socket of its own inside, so answers find their way.
//
// Set the fields, then Open; Close ends it and waits.
type UDPForwarder struct {
	// NS is the agent's namespace. The forwarder does not close it.
	NS *NS
	// External is the host's side. An invalid address means 127.0.0.1; port 0
	// lets the kernel choose. On a wildcard address of a host with several, an
	// answer may leave by another than the question came to.
	External netip.AddrPort
	// Internal is the agent's port.
	Internal uint16
	MaxPeers int           // DefaultMaxPeers if 0
	Budget   Budget        // shared with the agent's other maps; may be nil
	Idle     time.Duration // DefaultIdle if 0
	Log      *slog.Logger  // slog.Default if nil

	conn   *net.UDPConn
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	peers  map[netip.AddrPort]*udpPeer
}

type udpPeer struct {
	addr  netip.AddrPort
	inner net.Conn
	used  atomic.Int64 // UnixNano of the last datagram either way
}

// Open binds the external port and starts to forward. ErrPortInUse: another
// program has it. ctx bounds Open only.
func (f *UDPForwarder) Open(ctx context.Context) error {
	at, err := hostSide(f.External, f.Internal)
	if err != nil {
		return err
	}
	pc, err := listenHostUDP(ctx, at)
	if err != nil {
		return err
	}
	if f.MaxPeers <= 0 {
		f.MaxPeers = DefaultMaxPeers
	}
	if f.Idle <= 0 {
		f.Idle = DefaultIdle
	}
	if f.Log == nil {
		f.Log = slog.Default()
	}
	f.conn, f.peers = pc, map[netip.AddrPort]*udpPeer{}
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.wg.Go(f.receive)
	return nil
}

// Addr is where the map is reached on the host, with the port chosen.
func (f *UDPForwarder) Addr() netip.AddrPort {
	return f.conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Close stops listening, forgets every peer and waits for all goroutines.
func (f *UDPForwarder) Close() error {
	f.mu.Lock()
	if f.closed || f.conn == nil {
		f.mu.Unlock()
		f.wg.Wait()
		return nil
	}
	f.closed = true
	for _, p := range f.peers {
		_ = p.inner.Close() // ends its goroutine
	}
	f.mu.Unlock()
	f.cancel(ErrClosed)
	err := f.conn.Close()
	f.wg.Wait()
	return err
}

// receive takes datagrams from outside. UDP may lose them: one that cannot be
// passed on is dropped.
func (f *UDPForwarder) receive() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := f.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if f.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// An ICMP error for an earlier answer is no error of this socket; the pause is for
			// errors that last.
			select {
			case <-time.After(10 * time.Millisecond):
			case <-f.ctx.Done():
				return
			}
			continue
		}
		p, err := f.peer(from)
		if err != nil {
			f.Log.Debug("datagram dropped", "op", "net.forward", "port", f.Internal, "err", err)
			continue
		}
		p.used.Store(time.Now().UnixNano())
		if _, err := p.inner.Write(buf[:n]); err != nil {
			f.Log.Debug("datagram dropped", "op", "net.forward", "port", f.Internal, "err", err)
		}
	}
}

// peer finds or makes the inner socket of an outer peer. Only receive calls it.
func (f *UDPForwarder) peer(from netip.AddrPort) (*udpPeer, error) {
	f.mu.Lock()
	p, n := f.peers[from], len(f.peers)
	f.mu.Unlock()
	if p != nil {
		return p, nil
	}
	if n >= f.MaxPeers {
		f.forgetOldest()
	}
	if !f.Budget.try() {
		// The agent's maps are full: only a peer of our own can make room.
		ctx, cancel := context.WithTimeout(f.ctx, 100*time.Millisecond)
		room := f.forgetOldest() && f.Budget.wait(ctx)
		cancel()
		if !room {
			return nil, errors.New("the agent's port maps carry as much as they may")
		}
	}
	p, err := f.newPeer(from)
	if err != nil {
		f.Budget.giveBack()
	}
	return p, err
}

// forgetOldest ends the peer that has been silent longest, and reports whether there was one.
func (f *UDPForwarder) forgetOldest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var oldest *udpPeer
	for _, p := range f.peers {
		if oldest == nil || p.used.Load() < oldest.used.Load() {
			oldest = p
		}
	}
	if oldest == nil {
		return false
	}
	delete(f.peers, oldest.addr)
	_ = oldest.inner.Close() // ends its goroutine, which gives its place back
	return true
}

func (f *UDPForwarder) newPeer(from netip.AddrPort) (*udpPeer, error) {
	ctx, cancel := context.WithTimeout(f.ctx, dialTimeout)
	defer cancel()
	target, err := f.target(ctx)
	if err != nil {
		return nil, err
	}
	inner, err := f.NS.Dial(ctx, "udp", target.String())
	if err != nil {
		return nil, err
	}
	p := &udpPeer{addr: from, inner: inner}
	p.used.Store(time.Now().UnixNano())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.Join(ErrClosed, inner.Close())
	}
	f.peers[from] = p
	f.wg.Go(func() { f.answer(p) })
	return p, nil
}

// target queries the kernel for the address that the server is bound to: unlike with TCP, a send
// to the wrong one does not fail.
func (f *UDPForwarder) target(ctx context.Context) (netip.AddrPort, error) {
	ls, err := f.NS.Listeners(ctx)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, l := range ls {
		if l.Proto != "udp" || l.Port != f.Internal {
			continue
		}
		a := l.Addr
		switch {
		case a == netip.IPv4Unspecified():
			a = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		case a == netip.IPv6Unspecified():
			a = netip.IPv6Loopback()
		}
		return netip.AddrPortFrom(a, l.Port), nil
	}
	return netip.AddrPort{}, fmt.Errorf("no socket is bound to port %d/udp in %s", f.Internal, f.NS.Path())
}

// answer passes back the server's datagrams until the peer is idle or the server is gone.
func (f *UDPForwarder) answer(p *udpPeer) {
	defer func() {
		f.mu.Lock()
		if f.peers[p.addr] == p { // another may have its address by now
			delete(f.peers, p.addr)
		}
		f.mu.Unlock()
		_ = p.inner.Close() // a datagram socket has no unsent data
		f.Budget.giveBack()
	}()
	buf := make([]byte, maxDatagram)
	for {
		end := time.Unix(0, p.used.Load()).Add(f.Idle)
		if !time.Now().Before(end) || p.inner.SetReadDeadline(end) != nil {
			return
		}
		n, err := p.inner.Read(buf)
		var ne net.Error
		switch {
		case err == nil:
		case errors.As(err, &ne) && ne.Timeout():
			continue // used may have moved on meanwhile
		default:
			return // refused: the server went, its successor may be bound elsewhere
		}
		p.used.Store(time.Now().UnixNano())
		if _, err := f.conn.WriteToUDPAddrPort(buf[:n], p.addr); err != nil {
			f.Log.Debug("answer dropped", "op", "net.forward", "port", f.Internal, "err", err)
		}
	}
}
