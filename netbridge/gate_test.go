package netbridge

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	mdlayher "github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"polis/netbridge/egress"
)

// moreInternet gives the internet further addresses, each with a web server.
func moreInternet(t testing.TB, inet *NS, addrs ...string) {
	t.Helper()
	p := &pair{ns: inet}
	require.NoError(t, p.inside(t.Context(), func(h *netlink.Handle) error {
		lo, err := h.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, h.LinkSetUp(lo))
		for _, addr := range addrs {
			a, err := netlink.ParseAddr(addr)
			require.NoError(t, err)
			a.Flags = unix.IFA_F_NODAD // usable at once
			require.NoError(t, h.AddrAdd(lo, a))
		}
		return nil
	}))
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestAClosedGateLetsNothingOut(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	listen(t, inet, "0.0.0.0:80", "web")
	ep, err := b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	readRefusals(t, ep, func(Refusal) {})
	ns, err := OpenNS(ep.NetNS)
	require.NoError(t, err)
	defer ns.Close()
	_, err = dial(t, ns, "203.0.113.1:80")
	require.ErrorIs(t, err, unix.ECONNREFUSED, "it is closed until Set")
	open(t, ep, nil, egress.Open)
	_, err = dial(t, ns, "203.0.113.1:80")
	require.NoError(t, err)
	_, err = b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	_, err = dial(t, ns, "203.0.113.1:80")
	require.NoError(t, err, "repairing the network leaves the gate as it is")
	require.NoError(t, b.Remove(t.Context(), "claude"))
	_, err = b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	again, err := OpenNS(ep.NetNS)
	require.NoError(t, err)
	defer again.Close()
	_, err = dial(t, again, "203.0.113.1:80")
	require.ErrorIs(t, err, unix.ECONNREFUSED, "a new agent of the name inherits nothing")
}

func TestPoliciesOfAddresses(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	moreInternet(t, inet, "203.0.113.2/32", "10.1.2.3/32", "192.168.7.7/32", "100.64.1.1/32")
	listen(t, inet, "0.0.0.0:80", "web")
	l, err := net.Listen("tcp", "0.0.0.0:7000")
	require.NoError(t, err)
	greet(t, l, "host")
	ep, ns := ensure(t, b, "claude")
	other, otherNS := ensure(t, b, "gemini")
	listen(t, otherNS, "0.0.0.0:80", "gemini")

	never := []string{"169.254.169.254:80", at(ep.Gateway, 7000), "198.51.100.2:7000", at(other.Addr, 80)}
	for name, tc := range map[string]struct {
		private, policy []string
		reached         []string
		refused         []string
	}{
		"open":              {nil, []string{"open"}, []string{"203.0.113.1:80", "203.0.113.2:80"}, []string{"10.1.2.3:80", "192.168.7.7:80", "100.64.1.1:80"}},
		"open and private":  {[]string{"10.1.0.0/16"}, []string{"open"}, []string{"203.0.113.1:80", "10.1.2.3:80"}, []string{"192.168.7.7:80"}},
		"all private":       {[]string{"10.0.0.0/8", "192.168.0.0/16"}, []string{"open"}, []string{"10.1.2.3:80", "192.168.7.7:80"}, nil},
		"none":              {[]string{"10.0.0.0/8"}, []string{"none"}, nil, []string{"203.0.113.1:80", "10.1.2.3:80"}},
		"names":             {nil, []string{"x.org"}, nil, []string{"203.0.113.1:80", "203.0.113.2:80"}},
		"an address":        {nil, []string{"203.0.113.1", "10.1.2.3"}, []string{"203.0.113.1:80"}, []string{"203.0.113.2:80", "10.1.2.3:80"}},
		"a network":         {[]string{"10.1.0.0/16"}, []string{"203.0.113.0/24", "10.0.0.0/8"}, []string{"203.0.113.2:80", "10.1.2.3:80"}, []string{"192.168.7.7:80"}},
		"too much of world": {nil, []string{"128.0.0.0/1", "0.0.0.0/1"}, []string{"203.0.113.2:80"}, []string{"10.1.2.3:80", "192.168.7.7:80"}},
	} {
		t.Run(name, func(t *testing.T) {
			open(t, ep, tc.private, tc.policy...)
			for _, addr := range tc.reached {
				_, err := dial(t, ns, addr)
				require.NoError(t, err, addr)
			}
			for _, addr := range append(tc.refused, never...) {
				start := time.Now()
				_, err := dial(t, ns, addr)
				require.ErrorIs(t, err, unix.ECONNREFUSED, addr)
				require.Less(t, time.Since(start), 15*time.Second, "refused, not left to a time-out")
			}
		})
	}
	for _, addr := range never[:3] {
		_, err := hear(net.Dial("tcp", addr))
		require.NoError(t, err, "%s is there: it is the agent that is refused", addr)
	}
}

func TestAddressesOpenForATime(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	moreInternet(t, inet, "203.0.113.2/32")
	listen(t, inet, "0.0.0.0:80", "web")
	ep, ns := ensure(t, b, "claude")
	g, e := open(t, ep, nil, "x.org")
	reaches := func(addr string) bool {
		_, err := dial(t, ns, addr+":80")
		if err != nil {
			require.ErrorIs(t, err, unix.ECONNREFUSED)
		}
		return err == nil
	}
	require.NoError(t, g.Allow(nil, nil))
	require.False(t, reaches("203.0.113.1"))
	require.NoError(t, g.Allow(map[netip.Addr]time.Duration{ip("203.0.113.1"): 3 * time.Second, ip("203.0.113.2"): time.Minute}, nil))
	require.True(t, reaches("203.0.113.1"))
	require.True(t, reaches("203.0.113.2"))
	require.Eventually(t, func() bool { return !reaches("203.0.113.1") }, 20*time.Second, 50*time.Millisecond, "its time is over")

	// Again, and longer: the new time counts.
	require.NoError(t, g.Allow(map[netip.Addr]time.Duration{ip("203.0.113.1"): time.Second}, nil))
	require.NoError(t, g.Allow(nil, map[netip.Addr]time.Duration{ip("203.0.113.1"): time.Minute}))
	time.Sleep(1300 * time.Millisecond)
	require.True(t, reaches("203.0.113.1"))

	// The rules are put in place again for every agent that comes and goes.
	gemini, _ := ensure(t, b, "gemini")
	require.NoError(t, b.EnsureShared(t.Context()))
	require.NoError(t, b.Remove(t.Context(), "gemini"))
	require.True(t, reaches("203.0.113.1"), "what was opened stays open")
	require.Error(t, Gate{Table: gemini.Table, Link: gemini.Link, Addr: gemini.Addr}.Allow(map[netip.Addr]time.Duration{ip("203.0.113.1"): time.Minute}, nil),
		"an agent that is gone cannot be opened")

	require.NoError(t, g.Set(t.Context(), e, map[netip.Addr]time.Duration{ip("203.0.113.2"): time.Minute}, nil))
	require.False(t, reaches("203.0.113.1"), "not kept")
	require.True(t, reaches("203.0.113.2"), "kept")

	many := map[netip.Addr]time.Duration{}
	for i := range gateSize - 1 {
		many[netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})] = time.Minute
	}
	require.NoError(t, g.Set(t.Context(), e, many, nil))
	require.NoError(t, g.Allow(map[netip.Addr]time.Duration{ip("203.0.113.1"): time.Minute}, nil))
	require.Error(t, g.Allow(map[netip.Addr]time.Duration{ip("203.0.113.2"): time.Minute}, nil), "there is an end")
	require.True(t, reaches("203.0.113.1"))
	require.False(t, reaches("203.0.113.2"))
}

// talk opens a connection over which lines go back and forth.
func talk(t testing.TB, inet, ns *NS, addr string) func() error {
	t.Helper()
	l, err := inet.Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		stop := context.AfterFunc(t.Context(), func() { _ = c.Close() }) // no packet reports the cut to it
		defer stop()
		_, _ = io.Copy(c, c)
		_ = c.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := ns.Dial(ctx, "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		_ = l.Close()
		<-done
	})
	return func() error {
		if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
			return err
		}
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
}

func TestANarrowerPolicyCutsConnections(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	moreInternet(t, inet, "203.0.113.2/32", "203.0.113.3/32")
	ep, ns := ensure(t, b, "claude")
	g, e := open(t, ep, nil, "x.org", "203.0.113.3")
	require.NoError(t, g.Allow(map[netip.Addr]time.Duration{ip("203.0.113.1"): 2 * time.Second, ip("203.0.113.2"): time.Minute}, nil))
	one, two, three := talk(t, inet, ns, "203.0.113.1:1000"), talk(t, inet, ns, "203.0.113.2:1000"), talk(t, inet, ns, "203.0.113.3:1000")
	time.Sleep(2300 * time.Millisecond)
	for _, say := range []func() error{one, two, three} {
		require.NoError(t, say(), "a connection outlives the time of its address")
	}
	require.NoError(t, g.Set(t.Context(), e, map[netip.Addr]time.Duration{ip("203.0.113.1"): time.Minute}, nil))
	require.NoError(t, one())
	require.ErrorIs(t, two(), unix.ECONNRESET, "cut at once")
	require.NoError(t, three())
	open(t, ep, nil, egress.None)
	require.ErrorIs(t, one(), unix.ECONNRESET)
	require.ErrorIs(t, three(), unix.ECONNRESET)
}

func TestRefusalsAreReportedWhileTheProgramWaits(t *testing.T) {
	b := newBridge(t)
	internet(t)
	ep, err := b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	ns, err := OpenNS(ep.NetNS)
	require.NoError(t, err)
	defer ns.Close()
	open(t, ep, nil, egress.None)
	type told struct {
		Refusal
		inode uint32
		found bool
	}
	received := make(chan told, 1000)
	readRefusals(t, ep, func(r Refusal) {
		inode, ok, err := ns.Owner(t.Context(), r.Proto, r.Local, r.Remote)
		if err != nil {
			t.Errorf("owner of %v: %v", r, err)
		}
		received <- told{r, inode, ok}
	})
	_, err = dial(t, ns, "203.0.113.1:443")
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	got := <-received
	require.Equal(t, "tcp", got.Proto)
	require.Equal(t, ep.Addr, got.Local.Addr())
	require.Equal(t, "203.0.113.1:443", got.Remote.String())
	require.True(t, got.found && got.inode != 0, "its socket is still there")

	for _, connected := range []bool{true, false} {
		var c net.PacketConn
		require.NoError(t, ns.Do(t.Context(), func() (err error) {
			c, err = net.ListenPacket("udp4", "0.0.0.0:0")
			return err
		}))
		to := &net.UDPAddr{IP: net.IPv4(203, 0, 113, 1), Port: 53}
		if connected {
			rc, err := c.(*net.UDPConn).SyscallConn()
			require.NoError(t, err)
			require.NoError(t, rc.Control(func(fd uintptr) {
				require.NoError(t, unix.Connect(int(fd), &unix.SockaddrInet4{Addr: [4]byte{203, 0, 113, 1}, Port: 53}))
			}))
			f, err := c.(*net.UDPConn).File()
			require.NoError(t, err)
			_, err = f.Write([]byte("x"))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		} else {
			_, err = c.WriteTo([]byte("x"), to)
			require.NoError(t, err)
		}
		got = <-received
		require.Equal(t, "udp", got.Proto)
		require.Equal(t, "203.0.113.1:53", got.Remote.String())
		require.True(t, got.found, "connected: %v", connected)
		require.NoError(t, c.Close())
	}
	// A storm of connections is refused as quickly, and logged in part.
	start := time.Now()
	for range 300 {
		_, err := dial(t, ns, "203.0.113.1:80")
		require.ErrorIs(t, err, unix.ECONNREFUSED)
	}
	n := len(received)
	require.Greater(t, n, 0)
	require.LessOrEqual(t, n, logBurst+logRate*(int(time.Since(start)/time.Second)+2))

	// It hides no other destination, unless that is by chance in the same part, and the rest of it is counted.
	g := Gate{Table: ep.Table, Link: ep.Link, Addr: ep.Addr}
	unlogged, err := g.Unlogged()
	require.NoError(t, err)
	require.Equal(t, 300, n+int(unlogged))
	stop := make(chan struct{})
	var storm sync.WaitGroup
	storm.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = dial(t, ns, "203.0.113.1:80")
			}
		}
	})
	for i := range 8 {
		_, err = dial(t, ns, fmt.Sprint("203.0.113.", 2+i, ":22"))
		require.ErrorIs(t, err, unix.ECONNREFUSED)
	}
	close(stop)
	storm.Wait()
	odd := 0
	for len(received) > 0 {
		if r := <-received; r.Remote.Port() == 22 {
			odd++
		}
	}
	require.GreaterOrEqual(t, odd, 4)
}

func TestTheQueueIsNoWayOut(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	listen(t, inet, "0.0.0.0:80", "web")
	ep, err := b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	ns, err := OpenNS(ep.NetNS)
	require.NoError(t, err)
	defer ns.Close()
	open(t, ep, nil, egress.None)
	_, err = dial(t, ns, "203.0.113.1:80")
	require.ErrorIs(t, err, unix.ECONNREFUSED, "refused at once, and not logged")
	g := Gate{Table: ep.Table, Link: ep.Link, Addr: ep.Addr}
	r := &Refusals{Addr: ep.Addr, Log: testLog(t)}
	require.NoError(t, r.Open())
	second := &Refusals{Addr: ep.Addr, Log: testLog(t)}
	require.NoError(t, second.Open(), "another daemon's agent may have the same idea of a number")
	require.NotEqual(t, r.Queue, second.Queue)
	require.NoError(t, second.Close())
	require.NoError(t, g.LogTo(r.Queue))
	require.NoError(t, r.Close())
	require.NoError(t, r.Run(t.Context(), func(Refusal) {}), "closed before it ran")
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err = ns.Dial(ctx, "tcp", "203.0.113.1:80")
	require.Error(t, err, "no program has bound the queue")
	require.NoError(t, g.LogTo(0))
	_, err = dial(t, ns, "203.0.113.1:80")
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	gone := Gate{Table: ep.Table, Link: "plv000000000000", Addr: ep.Addr}
	require.NoError(t, gone.LogTo(0))
	require.Error(t, gone.LogTo(1<<14))

	// An agent cannot mark its packets as those that went round already: what
	// crosses to another namespace loses its mark.
	received := make(chan Refusal, 10)
	readRefusals(t, ep, func(r Refusal) { received <- r })
	require.NoError(t, ns.Do(t.Context(), func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, loggedMark))
		return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Addr: [4]byte{203, 0, 113, 1}, Port: 9})
	}))
	select {
	case <-received:
	case <-time.After(30 * time.Second):
		t.Fatal("a marked packet was not logged")
	}
}

// An agent has no IPv6. Even one that is root in its namespace, and gives itself
// addresses, gets not a packet out to an internet that has both.
func TestNothingLeaksByIPv6(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	_, ns := ensure(t, b, "claude")
	_, otherNS := ensure(t, b, "gemini")
	h, err := hostHandle()
	require.NoError(t, err)
	defer h.Close()
	six := func(h *netlink.Handle, link, addr string) {
		t.Helper()
		l, err := h.LinkByName(link)
		require.NoError(t, err)
		a, err := netlink.ParseAddr(addr)
		require.NoError(t, err)
		a.Flags = unix.IFA_F_NODAD
		require.NoError(t, h.AddrAdd(l, a))
	}
	six(h, "uplink", "2001:db8:1::2/64")
	_, err = setSysctl("/proc/sys/net/ipv6/conf/all/forwarding", "1") // a host that routes IPv6
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := setSysctl("/proc/sys/net/ipv6/conf/all/forwarding", "0")
		require.NoError(t, err)
	})
	p := &pair{ns: inet}
	require.NoError(t, p.inside(t.Context(), func(h *netlink.Handle) error {
		six(h, "eth0", "2001:db8:1::1/64")
		six(h, "lo", "2001:db8:2::1/128")
		return h.RouteAdd(&netlink.Route{Dst: &net.IPNet{IP: net.ParseIP("fd00::"), Mask: net.CIDRMask(8, 128)}, Gw: net.ParseIP("2001:db8:1::2")})
	}))
	listen(t, inet, "[::]:80", "web6")
	require.NoError(t, h.RouteAdd(&netlink.Route{Gw: net.ParseIP("2001:db8:1::1"), Dst: &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}))
	require.Eventually(t, func() bool {
		_, err := hear(net.DialTimeout("tcp", "[2001:db8:2::1]:80", time.Second))
		return err == nil
	}, 10*time.Second, 50*time.Millisecond, "the host itself reaches it")

	start := time.Now()
	_, err = dial(t, ns, "[2001:db8:2::1]:80")
	require.ErrorIs(t, err, unix.ENETUNREACH, "at once, without a packet")
	require.Less(t, time.Since(start), 15*time.Second)

	// Now as root in its own namespace.
	for i, n := range []*NS{ns, otherNS} {
		require.NoError(t, n.Do(t.Context(), func() error {
			return setSysctls([][2]string{{"/proc/sys/net/ipv6/conf/" + innerName + "/disable_ipv6", "0"}})
		}))
		q := &pair{ns: n}
		require.NoError(t, q.inside(t.Context(), func(h *netlink.Handle) error {
			six(h, innerName, "fd00::"+string(rune('a'+i))+"/64")
			l, err := h.LinkByName(innerName)
			require.NoError(t, err)
			gw := net.ParseIP("fe80::1")
			require.NoError(t, h.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, Family: unix.AF_INET6, State: netlink.NUD_PERMANENT,
				IP: gw, HardwareAddr: b.names.bridgeMAC()}))
			return h.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: gw, Flags: int(netlink.FLAG_ONLINK),
				Dst: &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}})
		}))
	}
	sink, err := inet.ListenPacket(t.Context(), "udp6", "[2001:db8:2::1]:9")
	require.NoError(t, err)
	defer sink.Close()
	peer, err := otherNS.ListenPacket(t.Context(), "udp6", "[::]:9")
	require.NoError(t, err)
	defer peer.Close()
	host, err := net.ListenPacket("udp6", "[::]:9")
	require.NoError(t, err)
	defer host.Close()
	for _, to := range []string{"[2001:db8:2::1]:9", "[2001:db8:1::2]:9", "[fd00::b]:9", "[fd00:ec2::254]:9"} {
		c, err := ns.Dial(t.Context(), "udp", to)
		require.NoError(t, err)
		_, _ = c.Write([]byte("leak")) //nolint:errcheck // whether it can be sent is not the question
		require.NoError(t, c.Close())
	}
	for name, c := range map[string]net.PacketConn{"internet": sink, "agent": peer, "host": host} {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(short)))
		_, _, err = c.ReadFrom(make([]byte, 16))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
	}
}

func TestSocketsOfManyKindsAreFound(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	listen(t, ns, "[::]:3000", "both")
	for _, to := range []string{"127.0.0.1:3000", "[::1]:3000"} {
		c, err := ns.Dial(t.Context(), "tcp", to)
		require.NoError(t, err)
		local, remote := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
		inode, ok, err := ns.Owner(t.Context(), "tcp", local, remote)
		require.NoError(t, err)
		require.True(t, ok, to)
		rc, err := c.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, rc.Control(func(fd uintptr) { require.NoError(t, unix.Fstat(int(fd), &st)) }))
		require.EqualValues(t, st.Ino, inode, to)
		require.NoError(t, c.Close())
	}
	_, ok, err := ns.Owner(t.Context(), "tcp", netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:3000"))
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = ns.Owner(t.Context(), "icmp", netip.AddrPort{}, netip.AddrPort{})
	require.NoError(t, err)
	require.False(t, ok)
}

func TestQueueNumbersAreFarFromThoseOfOthers(t *testing.T) {
	seen := map[uint16]bool{}
	for q := firstQueue(ip("10.213.0.2")); !seen[q]; q = nextQueue(q) {
		require.GreaterOrEqual(t, q, uint16(1<<14))
		require.Less(t, q, uint16(1<<15))
		seen[q] = true
	}
	require.Len(t, seen, 1<<14, "all are tried before one is tried again")
}

func FuzzQueued(f *testing.F) {
	packet := append([]byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 213, 0, 2, 203, 0, 113, 1}, 0x80, 1, 0, 80)
	attrs, err := mdlayher.MarshalAttributes([]mdlayher.Attribute{{Type: nfqPacketHdr, Data: []byte{0, 0, 0, 1, 8, 0, 0}}, {Type: nfqPayload, Data: packet}})
	require.NoError(f, err)
	body := append([]byte{2, 0, 0x40, 2}, attrs...)
	id, _, read, ok := parseQueued(body)
	require.True(f, ok)
	require.EqualValues(f, 1, id)
	require.Equal(f, packet, read)
	f.Add(body)
	f.Add([]byte(strings.Repeat("\xff", 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for m := range messages(b) {
			_ = m.kind
		}
		_, _, packet, ok := parseQueued(b)
		if !ok {
			return
		}
		if r, ok := parsePacket(packet); ok {
			require.True(t, r.Local.Addr().Is4() && r.Remote.Addr().Is4())
		}
	})
}

func TestPacketsAreRead(t *testing.T) {
	head := func(proto byte, more ...byte) []byte {
		return append([]byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, proto, 0, 0, 10, 213, 0, 2, 203, 0, 113, 1}, more...)
	}
	r, ok := parsePacket(head(unix.IPPROTO_TCP, 0x80, 1, 0, 80))
	require.True(t, ok)
	require.Equal(t, Refusal{"tcp", netip.MustParseAddrPort("10.213.0.2:32769"), netip.MustParseAddrPort("203.0.113.1:80"), false, 0}, r)
	later := head(unix.IPPROTO_UDP, 0x80, 1, 0, 80)
	later[7] = 8
	r, ok = parsePacket(later)
	require.True(t, ok)
	require.Zero(t, r.Remote.Port())
	for proto, want := range map[byte]string{unix.IPPROTO_ICMP: "icmp", 47: "47"} {
		r, ok = parsePacket(head(proto))
		require.True(t, ok)
		require.Equal(t, want, r.Proto)
	}
	for _, bad := range [][]byte{nil, {0x45}, append([]byte{0x60}, make([]byte, 40)...), append([]byte{0x41}, make([]byte, 40)...)} {
		_, ok := parsePacket(bad)
		require.False(t, ok)
	}
}
