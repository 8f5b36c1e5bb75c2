package netbridge

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

func writeEmpty(path string) error { return os.WriteFile(path, nil, 0o600) }

// photograph is all of the machine's network that we could have changed.
func photograph(t testing.TB, dirs ...string) string {
	t.Helper()
	var out strings.Builder
	for _, cmd := range [][]string{{"ip", "-o", "link"}, {"ip", "-o", "addr"}, {"ip", "route", "show", "table", "all"},
		{"ip", "neigh"}, {"bridge", "fdb"}, {"nft", "list", "ruleset"}} {
		if _, err := exec.LookPath(cmd[0]); err != nil {
			continue
		}
		b, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput()
		require.NoError(t, err, string(b))
		fmt.Fprintf(&out, "%v\n%s\n", cmd, b)
	}
	for _, file := range []string{"/proc/self/mountinfo", ipForward} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		fmt.Fprintf(&out, "%s\n%s\n", file, b)
	}
	for _, dir := range dirs {
		require.NoError(t, filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
			fmt.Fprintln(&out, path)
			return err
		}))
	}
	// Whether a bridge has a carrier is noticed with a delay.
	return strings.NewReplacer("NO-CARRIER,", "", "state DOWN", "state", "state UP", "state",
		"linkdown ", "", ",LOWER_UP", "").Replace(out.String())
}

func TestRemoveLeavesNothing(t *testing.T) {
	needKernel(t)
	dir := t.TempDir()
	before := photograph(t, dir)
	b, err := New(Config{NetnsDir: filepath.Join(dir, "netns"), LockFile: filepath.Join(dir, "lock"), Log: testLog(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.RemoveShared(context.Background())) })
	require.NoError(t, b.EnsureShared(t.Context()))
	shared := photograph(t)
	_, err = b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	require.NotEqual(t, shared, photograph(t))
	require.NoError(t, b.Remove(t.Context(), "claude"))
	require.NoError(t, b.Remove(t.Context(), "claude"), "removing nothing is success")
	require.Equal(t, shared, photograph(t))
	_, err = b.Ensure(t.Context(), "gemini") // left to RemoveShared
	require.NoError(t, err)
	require.NoError(t, b.RemoveShared(t.Context()))
	require.Equal(t, before, photograph(t, dir))
	require.NoError(t, b.RemoveShared(t.Context()), "removing nothing is success")
	require.Equal(t, before, photograph(t, dir))
}

func TestEnsureIsIdempotent(t *testing.T) {
	b := newBridge(t)
	first, ns := ensure(t, b, "claude")
	listen(t, ns, "0.0.0.0:3000", "claude")
	before := photograph(t, b.cfg.NetnsDir)
	for range 3 {
		again, err := b.Ensure(t.Context(), "claude")
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.NoError(t, b.EnsureShared(t.Context()))
	}
	require.Equal(t, before, photograph(t, b.cfg.NetnsDir))
	got, err := dial(t, ns, at(first.Addr, 3000))
	require.NoError(t, err)
	require.Equal(t, "claude "+first.Addr.String(), got)
}

func TestAnAgentThatComesBackHasItsOldAddress(t *testing.T) {
	b := newBridge(t)
	first, _ := ensure(t, b, "claude")
	require.NoError(t, b.Remove(t.Context(), "claude"))
	again, _ := ensure(t, b, "claude")
	require.Equal(t, first.Addr, again.Addr)
}

func TestManyAgentsAtOnce(t *testing.T) {
	b := newBridge(t)
	// Another daemon on the same machine, at the same time.
	other, err := New(Config{Instance: t.Name() + "other", NetnsDir: filepath.Join(t.TempDir(), "netns"), LockFile: b.cfg.LockFile, Log: b.log})
	require.NoError(t, err)
	require.NoError(t, other.EnsureShared(t.Context()))
	t.Cleanup(func() { require.NoError(t, other.RemoveShared(context.Background())) })
	var mu sync.Mutex
	seen := map[netip.Addr]string{}
	var g errgroup.Group
	for i := range 10 {
		for _, x := range []*Bridge{b, other} {
			g.Go(func() error {
				agent := fmt.Sprintf("agent-%d", i)
				ep, err := x.Ensure(t.Context(), agent)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				if o, ok := seen[ep.Addr]; ok {
					return fmt.Errorf("%s/%s and %s share %v", x.Name(), agent, o, ep.Addr)
				}
				seen[ep.Addr] = x.Name() + "/" + agent
				return nil
			})
		}
	}
	require.NoError(t, g.Wait())
	for _, x := range []*Bridge{b, other} {
		list, err := x.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 10)
	}
	for i := range 10 {
		g.Go(func() error { return b.Remove(t.Context(), fmt.Sprintf("agent-%d", i)) })
	}
	require.NoError(t, g.Wait())
	list, err := b.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)
	list, err = other.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 10, "another daemon's agents stay")
}

func TestResiduesOfACrashAreHealed(t *testing.T) {
	for name, breakIt := range map[string]func(t *testing.T, b *Bridge, h *netlink.Handle, ep Endpoint){
		"link without its alias": func(t *testing.T, _ *Bridge, h *netlink.Handle, ep Endpoint) {
			l, err := h.LinkByName(ep.Link)
			require.NoError(t, err)
			require.NoError(t, h.LinkDel(l))
			attrs := netlink.NewLinkAttrs()
			attrs.Name = ep.Link
			require.NoError(t, h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "halfmade"}))
		},
		"link gone": func(t *testing.T, _ *Bridge, h *netlink.Handle, ep Endpoint) {
			l, err := h.LinkByName(ep.Link)
			require.NoError(t, err)
			require.NoError(t, h.LinkDel(l))
		},
		"namespace gone": func(t *testing.T, _ *Bridge, _ *netlink.Handle, ep Endpoint) {
			require.NoError(t, removeNetNS(ep.NetNS))
		},
		"namespace file without a namespace": func(t *testing.T, _ *Bridge, _ *netlink.Handle, ep Endpoint) {
			require.NoError(t, removeNetNS(ep.NetNS))
			require.NoError(t, writeEmpty(ep.NetNS))
		},
		"namespace replaced by the host's": func(t *testing.T, _ *Bridge, _ *netlink.Handle, ep Endpoint) {
			require.NoError(t, unix.Mount("/proc/self/ns/net", ep.NetNS, "", unix.MS_BIND, ""))
		},
		"link down and not attached": func(t *testing.T, _ *Bridge, h *netlink.Handle, ep Endpoint) {
			l, err := h.LinkByName(ep.Link)
			require.NoError(t, err)
			require.NoError(t, h.LinkSetNoMaster(l))
			require.NoError(t, h.LinkSetDown(l))
		},
		"port no longer isolated": func(t *testing.T, _ *Bridge, h *netlink.Handle, ep Endpoint) {
			l, err := h.LinkByName(ep.Link)
			require.NoError(t, err)
			require.NoError(t, h.LinkSetIsolated(l, false))
		},
		"rules gone": func(t *testing.T, b *Bridge, h *netlink.Handle, _ Endpoint) {
			require.NoError(t, (&change{Bridge: b, nl: h}).removeTable())
		},
		"bridge gone": func(t *testing.T, b *Bridge, h *netlink.Handle, _ Endpoint) {
			l, err := h.LinkByName(b.Name())
			require.NoError(t, err)
			require.NoError(t, h.LinkDel(l))
			_, err = b.Ensure(t.Context(), "claude")
			require.ErrorIs(t, err, ErrNotReady)
			require.NoError(t, b.EnsureShared(t.Context()))
		},
		"bridge without alias and address": func(t *testing.T, b *Bridge, h *netlink.Handle, _ Endpoint) {
			l, err := h.LinkByName(b.Name())
			require.NoError(t, err)
			require.NoError(t, h.LinkDel(l))
			attrs := netlink.NewLinkAttrs()
			attrs.Name = b.Name()
			require.NoError(t, h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}))
			require.NoError(t, b.EnsureShared(t.Context()))
		},
		"default route and address gone inside": func(t *testing.T, _ *Bridge, _ *netlink.Handle, ep Endpoint) {
			ns, err := OpenNS(ep.NetNS)
			require.NoError(t, err)
			defer func() { require.NoError(t, ns.Close()) }()
			require.NoError(t, (&pair{ns: ns}).inside(t.Context(), func(h *netlink.Handle) error {
				eth, err := h.LinkByName(innerName)
				require.NoError(t, err)
				return h.AddrDel(eth, &netlink.Addr{IPNet: ipNet(ep.Addr, 32)})
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t)
			inet := internet(t)
			listen(t, inet, "0.0.0.0:80", "web")
			ep, err := b.Ensure(t.Context(), "claude")
			require.NoError(t, err)
			h, err := hostHandle()
			require.NoError(t, err)
			defer h.Close()
			breakIt(t, b, h, ep)

			healed, ns := ensure(t, b, "claude")
			require.Equal(t, ep, healed)
			got, err := dial(t, ns, "203.0.113.1:80")
			require.NoError(t, err)
			require.Equal(t, "web 198.51.100.2", got)
			link, err := h.LinkByName(ep.Link)
			require.NoError(t, err)
			port, err := h.LinkGetProtinfo(link)
			require.NoError(t, err)
			require.True(t, port.Isolated)
			require.False(t, port.Learning)
			_, err = dial(t, ns, "169.254.169.254:80")
			require.ErrorIs(t, err, unix.ECONNREFUSED)
		})
	}
}

func TestHalfMadeThingsAreListedAndRemoved(t *testing.T) {
	b := newBridge(t)
	ep, err := b.Ensure(t.Context(), "no-link")
	require.NoError(t, err)
	h, err := hostHandle()
	require.NoError(t, err)
	defer h.Close()
	l, err := h.LinkByName(ep.Link)
	require.NoError(t, err)
	require.NoError(t, h.LinkDel(l))
	ep, err = b.Ensure(t.Context(), "no-file")
	require.NoError(t, err)
	require.NoError(t, unix.Unmount(ep.NetNS, unix.MNT_DETACH))
	require.NoError(t, os.Remove(ep.NetNS))

	// A link that was never marked belongs to no agent; EnsureShared sweeps it.
	attrs := netlink.NewLinkAttrs()
	attrs.Name = b.names.veth("never-marked")
	require.NoError(t, h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "halfmade"}))
	// One of another program, with a name like ours and an alias, stays.
	foreign := netlink.NewLinkAttrs()
	foreign.Name = vethPrefix + "000000000000"
	require.NoError(t, h.LinkAdd(&netlink.Veth{LinkAttrs: foreign, PeerName: "foreign"}))
	fl, err := h.LinkByName(foreign.Name)
	require.NoError(t, err)
	require.NoError(t, h.LinkSetAlias(fl, "another program's"))
	t.Cleanup(func() { require.NoError(t, netlink.LinkDel(fl)) })

	require.NoError(t, b.EnsureShared(t.Context()))
	_, err = h.LinkByName(attrs.Name)
	require.True(t, isNotFound(err))
	_, err = h.LinkByName(foreign.Name)
	require.NoError(t, err)

	list, err := b.List(t.Context())
	require.NoError(t, err)
	for _, agent := range list {
		require.NoError(t, b.Remove(t.Context(), agent))
	}
	require.Contains(t, list, "no-link")
	list, err = b.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestForeignBridgeIsLeftAlone(t *testing.T) {
	needKernel(t)
	dir := t.TempDir()
	b, err := New(Config{Instance: t.Name(), NetnsDir: filepath.Join(dir, "netns"), LockFile: filepath.Join(dir, "lock"), Log: testLog(t)})
	require.NoError(t, err)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = b.Name()
	foreign := &netlink.Bridge{LinkAttrs: attrs}
	require.NoError(t, netlink.LinkAdd(foreign))
	require.NoError(t, netlink.LinkSetAlias(foreign, "another program's"))
	t.Cleanup(func() { require.NoError(t, netlink.LinkDel(foreign)) })
	before := photograph(t)
	require.ErrorIs(t, b.EnsureShared(t.Context()), ErrForeignLink)
	_, err = b.Ensure(t.Context(), "claude")
	require.ErrorIs(t, err, ErrNotReady)
	require.NoError(t, b.RemoveShared(t.Context()))
	require.Equal(t, before, photograph(t))
}

func TestForwardingIsRestoredByTheLastToLeave(t *testing.T) {
	needKernel(t)
	dir := t.TempDir()
	start := func(instance string) *Bridge {
		b, err := New(Config{Instance: instance, NetnsDir: filepath.Join(dir, instance), LockFile: filepath.Join(dir, "lock"), Log: testLog(t)})
		require.NoError(t, err)
		require.NoError(t, b.EnsureShared(t.Context()))
		t.Cleanup(func() { require.NoError(t, b.RemoveShared(context.Background())) })
		return b
	}
	forwarding := func() string {
		v, err := os.ReadFile(ipForward)
		require.NoError(t, err)
		return strings.TrimSpace(string(v))
	}
	for _, was := range []string{"0", "1"} {
		_, err := setSysctl(ipForward, was)
		require.NoError(t, err)
		first := start("first")
		second := start("second")
		require.Equal(t, "1", forwarding())
		require.NoError(t, first.RemoveShared(t.Context()))
		require.Equal(t, "1", forwarding(), "another instance still needs it")
		require.NoError(t, second.RemoveShared(t.Context()))
		require.Equal(t, was, forwarding())
	}
	_, err := setSysctl(ipForward, "0")
	require.NoError(t, err)
}

func TestAgentsTakeTheUplinksMTU(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	internet(t) // a default route by the link "uplink"
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
	up, err := h.LinkByName("uplink")
	require.NoError(t, err)
	for uplink, want := range map[int]int{1400: 1400, 9000: 1500, 600: leastMTU} {
		require.NoError(t, h.LinkSetMTU(up, uplink))
		require.NoError(t, b.EnsureShared(t.Context()))
		_, err := b.Ensure(t.Context(), "claude")
		require.NoError(t, err)
		require.Equal(t, []int{want, want, want}, mtus(), "uplink %d", uplink)
	}
}

func TestExistingSubnetWinsOverThePool(t *testing.T) {
	b := newBridge(t)
	first, _ := ensure(t, b, "claude")
	cfg := b.cfg
	cfg.Pool = netip.MustParsePrefix("10.99.0.0/16")
	again, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, again.EnsureShared(t.Context()))
	second, err := again.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestEnsureGivesUpWithItsContext(t *testing.T) {
	b := newBridge(t)
	unlock, err := lockFile(t.Context(), b.cfg.LockFile)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err = b.Ensure(ctx, "claude")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, unlock(false))
	_, err = b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	_, err = b.Ensure(t.Context(), "../claude")
	require.ErrorIs(t, err, ErrInvalidName)
	require.ErrorIs(t, b.Remove(t.Context(), ".."), ErrInvalidName)
}
