package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"polis/netbridge/egress"
)

// holding is a server that keeps what connects to it.
func holding(t testing.TB, ns *NS, addr string) {
	t.Helper()
	l, err := ns.Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range all {
					_ = c.Close()
				}
				return
			}
			go func() { // answers the other side's end with its own
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}()
			all = append(all, c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
}

// connect opens connections until one fails.
func connect(t testing.TB, ns *NS, addr string, most int) (conns []net.Conn, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(conns) < most {
		c, err := ns.Dial(ctx, "tcp", addr)
		if err != nil {
			return conns, err
		}
		t.Cleanup(func() { _ = c.Close() })
		conns = append(conns, c)
	}
	return conns, nil
}

// tracked is how many connections of an agent the kernel keeps.
func tracked(t testing.TB, ep Endpoint) (n int) {
	t.Helper()
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	require.NoError(t, err)
	defer h.Close()
	require.NoError(t, retryInterrupted(func() error {
		all, err := h.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		n = 0
		for _, f := range all {
			if f.Forward.SrcIP.Equal(ep.Addr.AsSlice()) {
				n++
			}
		}
		return err
	}))
	return n
}

func TestConnectionsOfAnAgentAreBounded(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	holding(t, inet, "0.0.0.0:80")
	ep, err := b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	ns, err := OpenNS(ep.NetNS)
	require.NoError(t, err)
	defer ns.Close()
	g, _ := open(t, ep, nil, egress.Open)
	_, other := ensure(t, b, "gemini")
	var crowded atomic.Int64
	readRefusals(t, ep, func(r Refusal) {
		if r.OverLimit && r.Proto == "tcp" && r.Remote.String() == "203.0.113.1:80" {
			crowded.Add(1)
		}
	})
	const most = 20
	require.NoError(t, g.LimitConnections(most))
	conns, err := connect(t, ns, "203.0.113.1:80", most)
	require.NoError(t, err)
	start := time.Now()
	_, err = connect(t, ns, "203.0.113.1:80", 1)
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	require.Less(t, time.Since(start), 10*time.Second, "refused, not left to a time-out")
	require.Equal(t, int64(1), crowded.Load())
	_, err = connect(t, other, "203.0.113.1:80", 2*most)
	require.NoError(t, err, "other agents have limits of their own")

	// The rules are made again as agents come and go; the count is not.
	ensure(t, b, "qwen")
	require.NoError(t, b.EnsureShared(t.Context()))
	_, err = connect(t, ns, "203.0.113.1:80", 1)
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	_, err = conns[0].Write([]byte("x"))
	require.NoError(t, err, "existing connections continue")

	for _, c := range conns[:5] {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		_, err := connect(t, ns, "203.0.113.1:80", 1)
		return err == nil
	}, 10*time.Second, 50*time.Millisecond, "ended connections make room")

	require.NoError(t, g.LimitConnections(0))
	_, err = connect(t, ns, "203.0.113.1:80", 2*most)
	require.NoError(t, err)
	gone := Gate{Table: ep.Table, Link: "plv000000000000", Addr: ep.Addr}
	require.NoError(t, gone.LimitConnections(0))
	require.ErrorIs(t, gone.LimitConnections(1), ErrNoConnlimit)
}

// flood sends datagrams that are a connection each to the kernel.
func flood(t testing.TB, ns *NS, n int) {
	t.Helper()
	var c net.PacketConn
	require.NoError(t, ns.Do(t.Context(), func() (err error) {
		c, err = net.ListenPacket("udp4", "0.0.0.0:0")
		return err
	}))
	defer c.Close()
	for i := range n {
		_, err := c.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(203, 0, 113, 1), Port: 1024 + i})
		if err != nil && !errors.Is(err, unix.EHOSTUNREACH) && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EPERM) {
			require.NoError(t, err)
		}
	}
}

// An agent that floods would fill the machine's table of connections: all of its
// own are in there.
func TestAFloodDoesNotFillTheTableOfConnections(t *testing.T) {
	b := newBridge(t)
	internet(t)
	ep, ns := ensure(t, b, "claude")
	g := Gate{Table: ep.Table, Link: ep.Link, Addr: ep.Addr}
	const most, sent = 200, 5000
	require.NoError(t, g.LimitConnections(most))
	flood(t, ns, sent)
	require.LessOrEqual(t, tracked(t, ep), most+10)
	require.Greater(t, tracked(t, ep), most/2)
	require.NoError(t, g.LimitConnections(0))
	flood(t, ns, sent)
	require.Greater(t, tracked(t, ep), sent/2, "without the bound")
}

func TestTheKernelCountsConnections(t *testing.T) {
	needKernel(t)
	require.NoError(t, ProbeConnlimit())
	most, err := MostConnections()
	require.NoError(t, err)
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d\n", most*tableShare), string(b))
}

// What the bound adds to a connection, by how many there are.
func BenchmarkNewConnection(b *testing.B) {
	br := newBridge(b)
	internet(b)
	ep, ns := ensure(b, br, "claude")
	g := Gate{Table: ep.Table, Link: ep.Link, Addr: ep.Addr}
	for _, c := range []struct {
		most   uint32
		before int
	}{{0, 0}, {1 << 16, 0}, {1 << 16, 4000}, {1 << 16, 16000}, {4096, 16000}} {
		b.Run(fmt.Sprintf("bound-%d-of-%d", c.before, c.most), func(b *testing.B) {
			require.NoError(b, g.cut(b.Context(), func(netip.Addr) bool { return false }))
			require.NoError(b, g.LimitConnections(c.most))
			flood(b, ns, c.before)
			const each = 1000
			b.ResetTimer()
			for range b.N {
				flood(b, ns, each)
				b.StopTimer()
				require.NoError(b, g.cut(b.Context(), func(netip.Addr) bool { return false }))
				flood(b, ns, c.before)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/each, "ns/connection")
		})
	}
}
