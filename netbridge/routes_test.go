package netbridge

import (
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func ipRun(t testing.TB, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
}

// vpn is a tunnel that takes over the way to the internet, as wg-quick or Tailscale do: by a table of its own, whose
// MTU is smaller than that of the machine's link.
func vpn(t testing.TB, inet *NS, mtu int) {
	t.Helper()
	h, err := hostHandle()
	require.NoError(t, err)
	defer h.Close()
	fd, err := unix.Open(inet.Path(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "wg0", mtu
	require.NoError(t, h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "tunnel", PeerNamespace: netlink.NsFd(fd), PeerMTU: 1500}))
	l, err := h.LinkByName("wg0")
	require.NoError(t, err)
	require.NoError(t, h.LinkSetMTU(l, mtu))
	ipRun(t, "addr", "add", "192.0.2.2/24", "dev", "wg0")
	ipRun(t, "link", "set", "wg0", "up")
	require.NoError(t, (&pair{ns: inet}).inside(t.Context(), func(h *netlink.Handle) error {
		l, err := h.LinkByName("tunnel")
		require.NoError(t, err)
		a, err := netlink.ParseAddr("192.0.2.1/24")
		require.NoError(t, err)
		require.NoError(t, h.AddrAdd(l, a))
		return h.LinkSetUp(l)
	}))
	ipRun(t, "route", "add", "default", "via", "192.0.2.1", "dev", "wg0", "table", "51820")
	ipRun(t, "rule", "add", "not", "fwmark", "51820", "table", "51820", "pref", "32765")
	ipRun(t, "rule", "add", "table", "main", "suppress_prefixlength", "0", "pref", "32764")
	t.Cleanup(func() {
		ipRun(t, "rule", "del", "pref", "32764")
		ipRun(t, "rule", "del", "pref", "32765")
		ipRun(t, "link", "del", "wg0")
	})
}

// OpenVPN's redirect-gateway adds the default route in two halves.
func TestHalvesOfTheDefaultRouteAreNoConflict(t *testing.T) {
	needKernel(t)
	inet := internet(t)
	ipRun(t, "route", "add", "0.0.0.0/1", "via", "198.51.100.1")
	ipRun(t, "route", "add", "128.0.0.0/1", "via", "198.51.100.1")
	listen(t, inet, "203.0.113.1:80", "web")
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	got, err := dial(t, ns, "203.0.113.1:80")
	require.NoError(t, err)
	require.Equal(t, "web 198.51.100.2", got)
}

// maxSeg is the size of the segments that a server may send to a client, both of which the kernel connects.
func maxSeg(t testing.TB, inet, ns *NS) (down, up int) {
	t.Helper()
	l, err := inet.Listen(t.Context(), "tcp", "203.0.113.1:80")
	require.NoError(t, err)
	defer l.Close()
	c, err := ns.Dial(t.Context(), "tcp", "203.0.113.1:80")
	require.NoError(t, err)
	defer c.Close()
	s, err := l.Accept()
	require.NoError(t, err)
	defer s.Close()
	of := func(c net.Conn) (size int) {
		raw, err := c.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			size, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
		}))
		require.NoError(t, err)
		return size
	}
	return of(s), of(c)
}

func TestSegmentsFitThePath(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	_, ns := ensure(t, b, "claude")
	const timestamps = 12 // in each segment
	down, up := maxSeg(t, inet, ns)
	require.Equal(t, 1460-timestamps, down)
	require.Equal(t, 1460-timestamps, up)
	// Nobody has lowered the MTU of the agent's link yet.
	vpn(t, inet, 1280)
	down, up = maxSeg(t, inet, ns)
	require.Equal(t, 1240-timestamps, down, "a server behind the tunnel sends no segment that does not fit into it")
	require.Equal(t, 1240-timestamps, up)
}

func TestAgentsFollowTheRoutes(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	ep, ns := ensure(t, b, "claude")
	reports := keeping(t, b, func(string) {})
	h, err := hostHandle()
	require.NoError(t, err)
	defer h.Close()
	mtus := func() []int {
		var out []int
		for _, name := range []string{b.Name(), ep.Link} {
			l, err := h.LinkByName(name)
			require.NoError(t, err)
			out = append(out, l.Attrs().MTU)
		}
		inner, err := (&pair{ns: ns}).innerLink(t.Context())
		require.NoError(t, err)
		return append(out, inner.Attrs().MTU)
	}
	require.Equal(t, []int{1500, 1500, 1500}, mtus())
	t.Run("a tunnel comes", func(t *testing.T) {
		vpn(t, inet, 1420)
		require.Eventually(t, func() bool { m := mtus(); return m[0] == 1420 && m[1] == 1420 && m[2] == 1420 }, 30*time.Second, 20*time.Millisecond)
		listen(t, inet, "203.0.113.1:80", "web")
		got, err := dial(t, ns, "203.0.113.1:80")
		require.NoError(t, err)
		require.Equal(t, "web 192.0.2.2", got)
	})
	require.Eventually(t, func() bool { return mtus()[2] == 1500 }, 30*time.Second, 20*time.Millisecond, "and goes")
	ipRun(t, "link", "set", "uplink", "mtu", "1300")
	require.Eventually(t, func() bool { return mtus()[2] == 1300 }, 30*time.Second, 20*time.Millisecond)
	require.Empty(t, reports(), "none of this is a fault")
}

// A VPN takes over all that is not on a table of its own, and the way to the agents as well.
func TestPacketsToAgentsFindTheirWay(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	_, ns := ensure(t, b, "claude")
	reports := keeping(t, b, func(string) {})
	listen(t, inet, "203.0.113.1:80", "web")
	ipRun(t, "route", "add", "default", "via", "198.51.100.1", "table", "52")
	ipRun(t, "rule", "add", "table", "52", "pref", "5270")
	require.Eventually(t, func() bool {
		faults, _, err := b.Check(t.Context())
		return err == nil && len(faults) == 0 && len(reports()) > 0
	}, 30*time.Second, 20*time.Millisecond)
	require.Contains(t, Faults(reports()[0].Faults), `packets to the agents leave by "uplink"`)
	got, err := dial(t, ns, "203.0.113.1:80")
	require.NoError(t, err)
	require.Equal(t, "web 198.51.100.2", got)
	ipRun(t, "rule", "del", "pref", "5270")
	ipRun(t, "route", "flush", "table", "52")
	require.NoError(t, b.RemoveShared(t.Context()))
	out, err := exec.Command("ip", "rule").CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(out), "4213")
}

func TestRoutesSayWhatTheyMeanForAgents(t *testing.T) {
	b := newBridge(t)
	r, err := b.Routes(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.Links, "this host has no way to the internet")
	inet := internet(t)
	r, err = b.Routes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"uplink"}, r.Links)
	require.Equal(t, 1500, r.MTU)
	require.Empty(t, r.Overlaps)
	vpn(t, inet, 1380)
	ipRun(t, "route", "add", r.Subnet.Addr().String()+"/24", "via", "192.0.2.1")
	r, err = b.Routes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"wg0"}, r.Links)
	require.Equal(t, 1380, r.MTU)
	require.Len(t, r.Overlaps, 1)
}

func TestAWideRouteLeavesRoomForAgents(t *testing.T) {
	needKernel(t)
	internet(t)
	ipRun(t, "route", "add", "10.0.0.0/8", "via", "198.51.100.1")
	b := newBridge(t)
	r, err := b.Routes(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Overlaps, 1)
}
