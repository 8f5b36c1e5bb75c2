package netbridge

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echoUDP answers every datagram with text and the datagram, until stopped.
func echoUDP(t testing.TB, ns *NS, addr, text string) (stop func()) {
	t.Helper()
	c, err := ns.ListenPacket(t.Context(), "udp", addr)
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, maxDatagram)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(append([]byte(text), buf[:n]...), from)
		}
	})
	stop = sync.OnceFunc(func() {
		_ = c.Close()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func ask(t testing.TB, c net.Conn, text string) (string, error) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
	buf := make([]byte, maxDatagram)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

func forwardUDP(t testing.TB, f *UDPForwarder) func() *net.UDPConn {
	t.Helper()
	f.Log = testLog(t)
	require.NoError(t, f.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return func() *net.UDPConn {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(f.Addr()))
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

func TestUDPForwarderReachesEveryWayToBind(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	for _, bind := range []string{"127.0.0.1:3000", "[::1]:3000", "0.0.0.0:3000", "[::]:3000", at(ep.Addr, 3000)} {
		t.Run(bind, func(t *testing.T) {
			echoUDP(t, ns, bind, "server ")
			dial := forwardUDP(t, &UDPForwarder{NS: ns, Internal: 3000})
			one, two := dial(), dial()
			for _, text := range []string{"a", "", "b"} {
				for _, c := range []net.Conn{one, two} {
					got, err := ask(t, c, text)
					require.NoError(t, err)
					require.Equal(t, "server "+text, got)
				}
			}
		})
	}
}

func TestUDPForwarderFollowsAServerThatRestartsElsewhere(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	dial := forwardUDP(t, &UDPForwarder{NS: ns, Internal: 3000})
	c := dial()
	for _, bind := range []string{"127.0.0.1:3000", "[::1]:3000"} {
		stop := echoUDP(t, ns, bind, bind)
		require.Eventually(t, func() bool { // the first datagrams may meet the old place
			require.NoError(t, c.SetDeadline(time.Now().Add(50*time.Millisecond)))
			got, err := ask(t, c, "")
			return err == nil && got == bind
		}, 20*time.Second, time.Millisecond)
		stop()
	}
}

func TestUDPForwarderBoundsItsPeers(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	echoUDP(t, ns, "127.0.0.1:3000", "")
	budget := NewBudget(3)
	f := &UDPForwarder{NS: ns, Internal: 3000, MaxPeers: 2, Budget: budget}
	dial := forwardUDP(t, f)
	peers := []net.Conn{dial(), dial(), dial(), dial(), dial()}
	for range 3 {
		for _, c := range peers { // each in turn is the one silent longest
			_, err := ask(t, c, "x")
			require.NoError(t, err)
			f.mu.Lock()
			require.LessOrEqual(t, len(f.peers), 2)
			f.mu.Unlock()
		}
	}
	// The agent's other maps take the rest: a new peer takes an old one's place.
	require.Eventually(t, budget.try, 20*time.Second, time.Millisecond)
	for _, c := range peers {
		_, err := ask(t, c, "x")
		require.NoError(t, err)
	}

	other := &UDPForwarder{NS: ns, Internal: 3000, External: f.Addr()}
	require.ErrorIs(t, other.Open(t.Context()), ErrPortInUse)
	require.NoError(t, other.Close())
	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "twice is fine")
	require.Empty(t, f.peers)
	require.Len(t, budget, 1, "what it acquired was released")
}
