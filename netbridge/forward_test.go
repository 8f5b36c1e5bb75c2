package netbridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

func forward(t testing.TB, ns *NS, ep Endpoint, port uint16, change ...func(*Forwarder)) *Forwarder {
	t.Helper()
	f := &Forwarder{NS: ns, Internal: port, AgentAddr: ep.Addr}
	for _, c := range change {
		c(f)
	}
	require.NoError(t, f.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func (f *Forwarder) dialOuter(t testing.TB) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", f.Addr().String(), 5*time.Second)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// requireReset wants the port to be refused by a reset, which may arrive while
// connecting or right after.
func requireReset(t testing.TB, f *Forwarder, why string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", f.Addr().String(), 5*time.Second)
	if err == nil {
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.ReadAll(c)
	}
	require.ErrorIs(t, err, unix.ECONNRESET, why)
}

func TestForwarderReachesEveryWayToBind(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	for name, bind := range map[string]string{
		"127.0.0.1": "127.0.0.1:3000", "::1": "[::1]:3000", "0.0.0.0": "0.0.0.0:3000",
		"::": "[::]:3000", "the agent's own address": at(ep.Addr, 3000),
	} {
		t.Run(name, func(t *testing.T) {
			listen(t, ns, bind, "server")
			f := forward(t, ns, ep, 3000)
			require.Equal(t, netip.MustParseAddr("127.0.0.1"), f.Addr().Addr())
			for range 3 {
				got, err := io.ReadAll(f.dialOuter(t))
				require.NoError(t, err)
				require.Contains(t, string(got), "server ")
			}
		})
	}
}

func TestForwarderFollowsAServerThatRestartsElsewhere(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	f := forward(t, ns, ep, 3000)
	for _, bind := range []string{"[::1]:3000", "127.0.0.1:3000", at(ep.Addr, 3000), "[::1]:3000"} {
		t.Run(bind, func(t *testing.T) {
			listen(t, ns, bind, bind)
			got, err := io.ReadAll(f.dialOuter(t))
			require.NoError(t, err)
			require.Contains(t, string(got), bind)
		})
	}
	requireReset(t, f, "no listener: reset, not an empty answer")
}

func TestTwoAgentsOnTheSamePortAreMappedApart(t *testing.T) {
	b := newBridge(t)
	for _, agent := range []string{"claude", "gemini"} {
		ep, ns := ensure(t, b, agent)
		listen(t, ns, "127.0.0.1:3000", agent)
		got, err := io.ReadAll(forward(t, ns, ep, 3000).dialOuter(t))
		require.NoError(t, err)
		require.Contains(t, string(got), agent)
	}
}

func TestForwarderReportsATakenPort(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f := &Forwarder{NS: ns, Internal: 3000, AgentAddr: ep.Addr, External: l.Addr().(*net.TCPAddr).AddrPort()}
	require.ErrorIs(t, f.Open(t.Context()), ErrPortInUse)
	require.NoError(t, f.Close(), "closing what never opened is fine")
	require.ErrorIs(t, (&Forwarder{NS: ns}).Open(t.Context()), ErrPortRange)
}

// echo sends back what it gets, and ends only after the peer ended.
func echo(t testing.TB, ns *NS, addr string) {
	t.Helper()
	l, err := ns.Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
}

func TestForwarderPassesHalfCloseOn(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	echo(t, ns, "127.0.0.1:3000")
	f := forward(t, ns, ep, 3000)
	want := make([]byte, 4<<20)
	_, err := rand.Read(want)
	require.NoError(t, err)
	var g errgroup.Group
	for range 4 {
		c := f.dialOuter(t)
		g.Go(func() error {
			var w errgroup.Group
			w.Go(func() error {
				if _, err := c.Write(want); err != nil {
					return err
				}
				return c.CloseWrite() // what is still on the way back must arrive
			})
			got, err := io.ReadAll(c)
			if err != nil {
				return err
			}
			if !bytes.Equal(want, got) {
				return errors.New("came back changed")
			}
			return w.Wait()
		})
	}
	require.NoError(t, g.Wait())
}

func TestForwarderPassesAResetOn(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	l, err := ns.Listen(t.Context(), "tcp", "127.0.0.1:3000")
	require.NoError(t, err)
	defer l.Close()
	f := forward(t, ns, ep, 3000)
	c := f.dialOuter(t)
	s, err := l.Accept()
	require.NoError(t, err)
	abort(s)
	_, err = io.ReadAll(c)
	require.ErrorIs(t, err, unix.ECONNRESET)

	c = f.dialOuter(t)
	s, err = l.Accept()
	require.NoError(t, err)
	defer s.Close()
	abort(c)
	require.NoError(t, s.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = s.Read(make([]byte, 1))
	require.ErrorIs(t, err, unix.ECONNRESET)
}

func TestForwarderBoundsItsConnections(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	echo(t, ns, "127.0.0.1:3000")
	f := forward(t, ns, ep, 3000, func(f *Forwarder) { f.MaxConns = 2 })
	say := func(c net.Conn) error {
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	first, second, third := f.dialOuter(t), f.dialOuter(t), f.dialOuter(t)
	require.NoError(t, say(first))
	require.NoError(t, say(second))
	require.NoError(t, third.SetDeadline(time.Now().Add(short)))
	require.ErrorIs(t, say(third), os.ErrDeadlineExceeded, "waits in the backlog")
	require.NoError(t, first.Close())
	require.NoError(t, third.SetDeadline(time.Now().Add(20*time.Second)))
	_, err := io.ReadFull(third, make([]byte, 1))
	require.NoError(t, err, "comes in when another left")
}

func TestMapsOfAnAgentShareABudget(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	echo(t, ns, "127.0.0.1:3000")
	budget := NewBudget(2)
	one := forward(t, ns, ep, 3000, func(f *Forwarder) { f.Budget = budget })
	two := forward(t, ns, ep, 3000, func(f *Forwarder) { f.Budget = budget })
	say := func(c net.Conn) error {
		_, err := c.Write([]byte("x"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return err
	}
	first, second := one.dialOuter(t), one.dialOuter(t)
	require.NoError(t, say(first))
	require.NoError(t, say(second))
	third := two.dialOuter(t)
	require.NoError(t, third.SetDeadline(time.Now().Add(short)))
	require.ErrorIs(t, say(third), os.ErrDeadlineExceeded, "the other map's connections count")
	require.NoError(t, first.Close())
	require.NoError(t, third.SetDeadline(time.Now().Add(20*time.Second)))
	_, err := io.ReadFull(third, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, one.Close())
	require.Eventually(t, func() bool { return len(budget) == 1 }, 20*time.Second, time.Millisecond)

	require.True(t, budget.try())
	waiting := two.dialOuter(t)
	require.NoError(t, two.Close(), "who waits for a place does not hold up the end")
	_, err = io.ReadAll(waiting)
	require.Error(t, err)
	require.Len(t, budget, 1)
}

func TestMapsAreBoundToTheGivenAddress(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	echo(t, ns, "127.0.0.1:3000")
	for bind, reach := range map[string]struct{ yes, no []string }{
		"127.0.0.1": {yes: []string{"127.0.0.1"}, no: []string{"127.0.0.2", "::1"}},
		"127.0.0.2": {yes: []string{"127.0.0.2"}, no: []string{"127.0.0.1", "::1"}},
		"::1":       {yes: []string{"::1"}, no: []string{"127.0.0.1"}},
		"0.0.0.0":   {yes: []string{"127.0.0.1", "127.0.0.2"}, no: []string{"::1"}},
		"::":        {yes: []string{"127.0.0.1", "127.0.0.2", "::1"}},
	} {
		t.Run(bind, func(t *testing.T) {
			at := netip.AddrPortFrom(netip.MustParseAddr(bind), 0)
			require.NoError(t, TryBind(t.Context(), "tcp", at))
			f := forward(t, ns, ep, 3000, func(f *Forwarder) { f.External = at })
			u := &UDPForwarder{NS: ns, Internal: 3000, External: netip.AddrPortFrom(at.Addr(), f.Addr().Port())}
			require.NoError(t, u.Open(t.Context()), "the same number for UDP")
			t.Cleanup(func() { require.NoError(t, u.Close()) })
			for _, proto := range []string{"tcp", "udp"} {
				require.ErrorIs(t, TryBind(t.Context(), proto, netip.AddrPortFrom(at.Addr(), f.Addr().Port())), ErrPortInUse)
			}
			dial := func(a string) error {
				c, err := net.DialTimeout("tcp", net.JoinHostPort(a, strconv.Itoa(int(f.Addr().Port()))), 5*time.Second)
				if err == nil {
					err = c.Close()
				}
				return err
			}
			for _, a := range reach.yes {
				require.NoError(t, dial(a), a)
			}
			for _, a := range reach.no {
				require.Error(t, dial(a), a)
			}
		})
	}
	stranger := netip.MustParseAddrPort("192.0.2.1:0")
	require.ErrorIs(t, TryBind(t.Context(), "tcp", stranger), ErrNoSuchAddress)
	require.ErrorIs(t, TryBind(t.Context(), "udp", stranger), ErrNoSuchAddress)
}

func TestForwarderCloseCutsAndWaits(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	echo(t, ns, "127.0.0.1:3000")
	f := &Forwarder{NS: ns, Internal: 3000, AgentAddr: ep.Addr}
	require.NoError(t, f.Open(t.Context()))
	c := f.dialOuter(t)
	_, err := c.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "twice is fine")
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, unix.ECONNRESET)
	_, err = net.Dial("tcp", f.Addr().String())
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	require.Empty(t, f.conns)

	// The context of Open is not the life of the map.
	ctx, cancel := context.WithCancel(t.Context())
	f = &Forwarder{NS: ns, Internal: 3000}
	require.NoError(t, f.Open(ctx))
	defer func() { require.NoError(t, f.Close()) }()
	cancel()
	c = f.dialOuter(t)
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
}

func TestForwarderOutlivesTheNamespacesThread(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	f := forward(t, ns, ep, 3000)
	require.NoError(t, ns.Close())
	requireReset(t, f, "the way in is gone")
}

func TestWatcherNoticesListeners(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	d := &DNS{NS: ns}
	require.NoError(t, d.Open(t.Context()))
	defer func() { require.NoError(t, d.Close()) }()

	changes := make(chan Change, 16)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		w := &Watcher{NS: ns, Interval: 5 * time.Millisecond, Linger: -1}
		return w.Run(ctx, func(c Change) { changes <- c })
	})
	next := func() Change {
		t.Helper()
		select {
		case c := <-changes:
			return c
		case <-time.After(20 * time.Second):
			t.Fatal("no change was reported")
			return Change{}
		}
	}
	l, err := ns.Listen(t.Context(), "tcp", "[::1]:3000")
	require.NoError(t, err)
	require.Equal(t, Change{Added: tcpPorts(3000)}, next(), "the resolver's own port is not the agent's")
	l2, err := ns.Listen(t.Context(), "tcp", "127.0.0.1:3000") // same port: no news
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l3, err := ns.Listen(t.Context(), "tcp", "0.0.0.0:5173")
	require.NoError(t, err)
	require.Equal(t, Change{Added: tcpPorts(5173)}, next())
	require.NoError(t, l2.Close())
	require.Equal(t, Change{Removed: tcpPorts(3000)}, next())
	require.NoError(t, l3.Close())
	require.Equal(t, Change{Removed: tcpPorts(5173)}, next())
	cancel()
	require.NoError(t, g.Wait())
}

func TestWatcherReadsNoListWhileNothingRuns(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	var idle atomic.Bool
	asked := make(chan struct{})
	changes := make(chan Change, 16)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		w := &Watcher{NS: ns, Interval: time.Millisecond, Linger: -1, Idle: func() bool {
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
			}
			return idle.Load()
		}}
		return w.Run(ctx, func(c Change) { changes <- c })
	})
	<-asked
	idle.Store(true)
	<-asked
	l, err := ns.Listen(t.Context(), "tcp", "127.0.0.1:3000")
	require.NoError(t, err)
	defer l.Close()
	for range 20 {
		<-asked
	}
	require.Empty(t, changes)
	idle.Store(false)
	<-asked
	<-asked
	require.Equal(t, Change{Added: tcpPorts(3000)}, <-changes)
	cancel()
	require.NoError(t, g.Wait())
}

func TestWatcherEndsWithItsNamespace(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	var g errgroup.Group
	g.Go(func() error {
		return (&Watcher{NS: ns, Interval: time.Millisecond}).Run(t.Context(), func(Change) {})
	})
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, ns.Close())
	require.NoError(t, g.Wait())
}

// TestManyBusyConnectionsContinueWithSmallBuffers has more of them than there are
// large buffers, and readers that are slow.
func TestManyBusyConnectionsContinueWithSmallBuffers(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	echo(t, ns, "127.0.0.1:3000")
	f := forward(t, ns, ep, 3000)
	want := make([]byte, 1<<20)
	_, err := rand.Read(want)
	require.NoError(t, err)
	var g errgroup.Group
	for range 3 * maxBig {
		c := f.dialOuter(t)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		g.Go(func() error {
			var w errgroup.Group
			w.Go(func() error {
				_, err := c.Write(want)
				return errors.Join(err, c.CloseWrite())
			})
			time.Sleep(short) // the kernel's buffers are full
			got, err := io.ReadAll(c)
			if err == nil && !bytes.Equal(want, got) {
				err = errors.New("came back changed")
			}
			return errors.Join(err, w.Wait())
		})
	}
	require.NoError(t, g.Wait())
	require.Eventually(t, func() bool { return len(f.bufs.big) == 0 }, 20*time.Second, time.Millisecond, "all are given back")
}
