package netbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// short bounds what is expected not to happen: a packet that is dropped.
const short = 250 * time.Millisecond

// greet serves text to every connection until the test ends.
func greet(t testing.TB, l net.Listener, text string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text+" "+c.RemoteAddr().(*net.TCPAddr).IP.String())
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
}

func listen(t testing.TB, ns *NS, addr, text string) {
	t.Helper()
	l, err := ns.Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	greet(t, l, text)
}

// hear reads what a greeter says.
func hear(c net.Conn, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return string(b), err
}

// dial gives up after a time that no answer within one kernel takes.
func dial(t testing.TB, ns *NS, addr string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return hear(ns.Dial(ctx, "tcp", addr))
}

// internet is a third namespace behind the host, which knows no way back to the
// agents' addresses. It has 203.0.113.1 and the metadata address.
func internet(t testing.TB) *NS {
	t.Helper()
	path := filepath.Join(t.TempDir(), "internet")
	ns, err := createNetNS(path)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, ns.Close())
		require.NoError(t, removeNetNS(path))
	})
	h, err := hostHandle()
	require.NoError(t, err)
	defer h.Close()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "uplink"
	require.NoError(t, h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(fd)}))
	up, err := h.LinkByName("uplink")
	require.NoError(t, err)
	t.Cleanup(func() {
		h, err := hostHandle()
		require.NoError(t, err)
		defer h.Close()
		require.NoError(t, h.LinkDel(up))
	})
	addAddr := func(h *netlink.Handle, link, addr string) {
		t.Helper()
		l, err := h.LinkByName(link)
		require.NoError(t, err)
		a, err := netlink.ParseAddr(addr)
		require.NoError(t, err)
		require.NoError(t, h.AddrAdd(l, a))
		require.NoError(t, h.LinkSetUp(l))
	}
	addAddr(h, "uplink", "198.51.100.2/24")
	p := &pair{ns: ns}
	require.NoError(t, p.inside(t.Context(), func(h *netlink.Handle) error {
		addAddr(h, "eth0", "198.51.100.1/24")
		addAddr(h, "lo", "203.0.113.1/32")
		addAddr(h, "lo", "169.254.169.254/32")
		return nil
	}))
	require.NoError(t, h.RouteAdd(&netlink.Route{Gw: net.IPv4(198, 51, 100, 1),
		Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}}))
	return ns
}

func at(a netip.Addr, port uint16) string { return netip.AddrPortFrom(a, port).String() }

func TestEveryAgentHasItsOwnLocalhost(t *testing.T) {
	b := newBridge(t)
	_, one := ensure(t, b, "claude")
	_, two := ensure(t, b, "gemini")
	listen(t, one, "127.0.0.1:3000", "claude")
	listen(t, two, "127.0.0.1:3000", "gemini")
	for ns, want := range map[*NS]string{one: "claude 127.0.0.1", two: "gemini 127.0.0.1"} {
		got, err := dial(t, ns, "127.0.0.1:3000")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestAgentsDoNotReachEachOther(t *testing.T) {
	b := newBridge(t)
	one, oneNS := ensure(t, b, "claude")
	two, twoNS := ensure(t, b, "gemini")
	listen(t, twoNS, "0.0.0.0:3000", "gemini")

	_, err := dial(t, oneNS, at(two.Addr, 3000))
	require.ErrorIs(t, err, unix.ECONNREFUSED, "through the gateway: refused at once")

	// With br_netfilter loaded the rules see bridged packets too. The port's
	// isolation has to do without.
	if _, err := setSysctl("/proc/sys/net/bridge/bridge-nf-call-iptables", "0"); err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	// Straight over the bridge: as root in its namespace an agent could put the
	// other on its link and name its hardware address.
	p := &pair{ns: oneNS}
	require.NoError(t, p.inside(t.Context(), func(h *netlink.Handle) error {
		eth, err := h.LinkByName(innerName)
		require.NoError(t, err)
		require.NoError(t, h.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: ipNet(two.Addr, 32), Scope: netlink.SCOPE_LINK}))
		return h.NeighSet(&netlink.Neigh{LinkIndex: eth.Attrs().Index, Family: unix.AF_INET,
			State: netlink.NUD_PERMANENT, IP: two.Addr.AsSlice(), HardwareAddr: macFor(two.Addr)})
	}))
	// A datagram, because an answer would have to take the gateway anyway.
	sink, err := twoNS.ListenPacket(t.Context(), "udp4", at(two.Addr, 9))
	require.NoError(t, err)
	defer sink.Close()
	c, err := oneNS.Dial(t.Context(), "udp", at(two.Addr, 9))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("knock"))
	require.NoError(t, err)
	require.NoError(t, sink.SetReadDeadline(time.Now().Add(short)))
	_, _, err = sink.ReadFrom(make([]byte, 16))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "no frame arrives")

	got, err := hear(net.Dial("tcp", at(two.Addr, 3000)))
	require.NoError(t, err, "the host itself does reach it")
	require.Equal(t, "gemini "+two.Gateway.String(), got)
	require.NotEqual(t, one.Addr, two.Addr)
}

func TestAgentsDoNotReachTheHost(t *testing.T) {
	b := newBridge(t)
	internet(t)
	ep, ns := ensure(t, b, "claude")
	l, err := net.Listen("tcp", "0.0.0.0:7000")
	require.NoError(t, err)
	greet(t, l, "host")
	for _, host := range []string{ep.Gateway.String(), "198.51.100.2"} {
		_, err := dial(t, ns, net.JoinHostPort(host, "7000"))
		require.ErrorIs(t, err, unix.ECONNREFUSED, host)
		got, err := hear(net.Dial("tcp", net.JoinHostPort(host, "7000")))
		require.NoError(t, err)
		require.Equal(t, "host "+host, got)
	}

	u, err := net.ListenPacket("udp4", "0.0.0.0:7000")
	require.NoError(t, err)
	defer u.Close()
	c, err := ns.Dial(t.Context(), "udp", at(ep.Gateway, 7000))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("knock"))
	require.NoError(t, err)
	require.NoError(t, u.SetReadDeadline(time.Now().Add(short)))
	_, _, err = u.ReadFrom(make([]byte, 16))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "no datagram arrives")
}

func TestAgentsReachTheInternetBehindTheHost(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	ep, ns := ensure(t, b, "claude")
	listen(t, inet, "0.0.0.0:80", "web")

	got, err := dial(t, ns, "203.0.113.1:80")
	require.NoError(t, err)
	require.Equal(t, "web 198.51.100.2", got, "masqueraded")

	for _, refused := range []string{"169.254.169.254:80", "127.0.0.2:81", "10.213.255.1:80"} {
		_, err = dial(t, ns, refused)
		require.ErrorIs(t, err, unix.ECONNREFUSED, refused)
	}
	_, err = hear(net.Dial("tcp", "169.254.169.254:80"))
	require.NoError(t, err, "the host reaches it: it is the agent that is refused")

	_, err = dial(t, ns, "[2001:db8::1]:80")
	require.Error(t, err, "no IPv6 beyond loopback")

	// The other way there is none, although the host would route.
	listen(t, ns, "0.0.0.0:3000", "claude")
	p := &pair{ns: inet}
	require.NoError(t, p.inside(t.Context(), func(h *netlink.Handle) error {
		return h.RouteAdd(&netlink.Route{Dst: ipNet(netip.MustParseAddr("10.213.0.0"), 16), Gw: net.IPv4(198, 51, 100, 2)})
	}))
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err = hear(inet.Dial(ctx, "tcp", at(ep.Addr, 3000)))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestSpoofedSourcesAreDropped(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	one, oneNS := ensure(t, b, "claude")
	two, twoNS := ensure(t, b, "gemini")
	sink, err := inet.ListenPacket(t.Context(), "udp4", "203.0.113.1:9")
	require.NoError(t, err)
	defer sink.Close()
	send := func(ns *NS, from netip.Addr, text string) {
		t.Helper()
		require.NoError(t, ns.Do(t.Context(), func() error {
			d := net.Dialer{LocalAddr: &net.UDPAddr{IP: from.AsSlice()}}
			c, err := d.Dial("udp4", "203.0.113.1:9")
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte(text))
			return err
		}))
	}
	p := &pair{ns: oneNS}
	require.NoError(t, p.inside(t.Context(), func(h *netlink.Handle) error {
		eth, err := h.LinkByName(innerName)
		require.NoError(t, err)
		require.NoError(t, h.AddrAdd(eth, &netlink.Addr{IPNet: ipNet(two.Addr, 32)}))
		return h.AddrAdd(eth, &netlink.Addr{IPNet: ipNet(netip.MustParseAddr("192.0.2.7"), 32)})
	}))
	send(oneNS, two.Addr, "as the other agent")
	send(oneNS, netip.MustParseAddr("192.0.2.7"), "as a stranger")
	send(oneNS, one.Addr, "as itself")
	send(twoNS, two.Addr, "the other agent itself")
	buf := make([]byte, 64)
	var got []string
	for {
		require.NoError(t, sink.SetReadDeadline(time.Now().Add(short)))
		n, _, err := sink.ReadFrom(buf)
		if err != nil {
			break
		}
		got = append(got, string(buf[:n]))
	}
	require.Equal(t, []string{"as itself", "the other agent itself"}, got)
}

// An agent that takes another's hardware address, or claims its IP address by
// ARP, must not draw the other's packets to itself.
func TestStolenAddressesDrawNoTraffic(t *testing.T) {
	for name, newMAC := range map[string]bool{"IP address": false, "IP and hardware address": true} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t)
			_, thief := ensure(t, b, "claude")
			victim, victimNS := ensure(t, b, "gemini")
			listen(t, victimNS, "0.0.0.0:3000", "gemini")
			listen(t, thief, "0.0.0.0:3000", "thief")
			p := &pair{ns: thief}
			require.NoError(t, p.inside(t.Context(), func(h *netlink.Handle) error {
				eth, err := h.LinkByName(innerName)
				require.NoError(t, err)
				require.NoError(t, h.LinkSetDown(eth))
				if newMAC {
					require.NoError(t, h.LinkSetHardwareAddr(eth, macFor(victim.Addr)))
				}
				require.NoError(t, h.AddrAdd(eth, &netlink.Addr{IPNet: ipNet(victim.Addr, 32)}))
				require.NoError(t, h.LinkSetUp(eth))
				return h.RouteReplace(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: ipNet(victim.Gateway, 32),
					Scope: netlink.SCOPE_LINK, Src: victim.Addr.AsSlice()})
			}))
			for range 3 {
				// Makes the thief ask for the gateway by ARP, in the victim's name.
				c, err := thief.Dial(t.Context(), "udp", at(victim.Gateway, 9))
				require.NoError(t, err)
				_, err = c.Write([]byte("x"))
				require.NoError(t, err)
				require.NoError(t, c.Close())
				got, err := hear(net.DialTimeout("tcp", at(victim.Addr, 3000), 5*time.Second))
				require.NoError(t, err)
				require.Equal(t, "gemini "+victim.Gateway.String(), got)
			}
		})
	}
}

// Other programs rewrite destinations, as container engines do to publish
// ports. That must not become a way to the host, nor to what the host has.
func TestRewrittenDestinationsAreNoWayRound(t *testing.T) {
	nft, err := exec.LookPath("nft")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs nft to play another program, and CI must not skip this")
		}
		t.Skip("needs nft to play another program")
	}
	b := newBridge(t)
	inet := internet(t)
	_, ns := ensure(t, b, "claude")
	listen(t, inet, "203.0.113.1:80", "web")
	l, err := net.Listen("tcp", "0.0.0.0:7000")
	require.NoError(t, err)
	greet(t, l, "host")
	cmd := exec.Command(nft, "-f", "-")
	cmd.Stdin = strings.NewReader(`table ip publish {
		chain prerouting {
			type nat hook prerouting priority dstnat; policy accept;
			ip daddr 198.51.100.2 tcp dport 8080 dnat to 203.0.113.1:80
			ip daddr 203.0.113.1 tcp dport 7000 redirect to :7000
			ip daddr 203.0.113.1 tcp dport 81 dnat to 203.0.113.1:80
		}
	}`)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Cleanup(func() {
		out, err := exec.Command(nft, "delete", "table", "ip", "publish").CombinedOutput()
		require.NoError(t, err, string(out))
	})
	got, err := dial(t, ns, "203.0.113.1:81")
	require.NoError(t, err, "the rewriting itself works")
	require.Equal(t, "web 198.51.100.2", got)
	_, err = dial(t, ns, "198.51.100.2:8080")
	require.ErrorIs(t, err, unix.ECONNREFUSED, "a published port of the host")
	_, err = dial(t, ns, "203.0.113.1:7000")
	require.ErrorIs(t, err, unix.ECONNREFUSED, "redirected to the host")
}

func TestNSRefusesTheHostsOwnNamespace(t *testing.T) {
	needKernel(t)
	_, err := OpenNS("/proc/self/ns/mnt")
	require.Error(t, err)
	file := filepath.Join(t.TempDir(), "own")
	require.NoError(t, writeEmpty(file))
	_, err = OpenNS(file)
	require.ErrorIs(t, err, ErrNotNetNS)
	require.NoError(t, unix.Mount("/proc/self/ns/net", file, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, removeNetNS(file)) })
	_, err = OpenNS(file)
	require.ErrorIs(t, err, ErrNotNetNS)
	_, err = OpenNS(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, unix.ENOENT)
}

func TestNSAfterCloseReportsIt(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	_, err := ns.Listeners(t.Context())
	require.NoError(t, err)
	require.NoError(t, ns.Close())
	require.NoError(t, ns.Close(), "twice is fine")
	_, err = ns.Dial(t.Context(), "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, ErrClosed)
	_, err = ns.Listeners(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}

func TestDialInNamespace(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	listen(t, ns, "[::1]:3000", "six")
	for _, tc := range []struct {
		network, addr string
		want          error
	}{
		{"tcp", "[::1]:3000", nil},
		{"tcp6", "[::1]:3000", nil},
		{"tcp", "127.0.0.1:3000", unix.ECONNREFUSED},
		{"tcp4", "127.0.0.1:3000", unix.ECONNREFUSED},
	} {
		_, err := hear(ns.Dial(t.Context(), tc.network, tc.addr))
		require.ErrorIs(t, err, tc.want, "%s %s", tc.network, tc.addr)
	}
	for _, bad := range [][2]string{{"tcp", "localhost:3000"}, {"tcp", "127.0.0.1"}, {"tcp4", "[::1]:3000"}, {"tcp6", "127.0.0.1:3000"}, {"unix", "127.0.0.1:1"}, {"", "127.0.0.1:1"}} {
		_, err := ns.Dial(t.Context(), bad[0], bad[1])
		require.Error(t, err, bad)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no longer wanted")
	cancel(why)
	_, err := ns.Dial(ctx, "tcp", "127.0.0.1:3000")
	require.ErrorIs(t, err, why)
}

func TestListenersAreSeen(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	listen(t, ns, "127.0.0.1:3000", "a")
	listen(t, ns, "[::1]:3001", "b")
	listen(t, ns, "[::]:3002", "c")
	u, err := ns.ListenPacket(t.Context(), "udp4", "0.0.0.0:3003")
	require.NoError(t, err)
	defer u.Close()
	c, err := ns.Dial(t.Context(), "tcp", "127.0.0.1:3000") // a connection is no listener
	require.NoError(t, err)
	defer c.Close()
	ls, err := ns.Listeners(t.Context())
	require.NoError(t, err)
	var got []string
	for _, l := range ls {
		require.NotZero(t, l.Inode)
		got = append(got, fmt.Sprintf("%s %s", l.Proto, netip.AddrPortFrom(l.Addr, l.Port)))
	}
	require.ElementsMatch(t, []string{"tcp 127.0.0.1:3000", "tcp [::1]:3001", "tcp [::]:3002", "udp 0.0.0.0:3003"}, got)
}
