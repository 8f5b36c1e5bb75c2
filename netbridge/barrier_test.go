package netbridge

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// needNFT returns a function that plays an administrator, or another program, with nft.
func needNFT(t testing.TB) func(args ...string) string {
	t.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs nft to play another program, and CI must not skip this")
		}
		t.Skip("needs nft to play another program")
	}
	return func(args ...string) string {
		t.Helper()
		out, err := exec.Command(nft, args...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
}

// reaches reports whether a connection of the agent gets an answer within a short time.
func reaches(t testing.TB, ns *NS, addr string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err := hear(ns.Dial(ctx, "tcp", addr))
	return err == nil
}

// What an administrator does to the rules of the machine must not open an agent, whatever polisd
// does about it later.
func TestWithoutTheRulesNoPacketOfAnAgentPasses(t *testing.T) {
	for name, lose := range map[string]func(nft func(...string) string, b *Bridge, ep Endpoint){
		"ruleset flushed": func(nft func(...string) string, _ *Bridge, _ Endpoint) { nft("flush", "ruleset") },
		"table deleted":   func(nft func(...string) string, b *Bridge, _ Endpoint) { nft("delete", "table", "inet", b.Table()) },
		"table flushed":   func(nft func(...string) string, b *Bridge, _ Endpoint) { nft("flush", "table", "inet", b.Table()) },
		"chain of the link deleted": func(nft func(...string) string, b *Bridge, ep Endpoint) {
			nft("delete", "chain", "inet", b.Table(), "from_"+ep.Link)
		},
		"table dormant": func(nft func(...string) string, b *Bridge, _ Endpoint) {
			nft("add", "table", "inet", b.Table(), "{ flags dormant; }")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t)
			inet := internet(t)
			one, oneNS := ensure(t, b, "claude")
			two, twoNS := ensure(t, b, "gemini")
			open(t, one, nil, "none")
			listen(t, inet, "0.0.0.0:80", "web")
			listen(t, twoNS, "0.0.0.0:3000", "gemini")
			l, err := net.Listen("tcp", "0.0.0.0:7000")
			require.NoError(t, err)
			greet(t, l, "host")
			sink, err := net.ListenPacket("udp4", "0.0.0.0:7001")
			require.NoError(t, err)
			defer sink.Close()

			lose(needNFT(t), b, one)
			// The way back from the internet, and to the agent from the host.
			addRoute(t, inet, b)
			for _, addr := range []string{at(one.Gateway, 7000), "198.51.100.2:7000", at(two.Addr, 3000), "203.0.113.1:80"} {
				require.False(t, reaches(t, oneNS, addr), addr)
			}
			c, err := oneNS.Dial(t.Context(), "udp", at(one.Gateway, 7001))
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Write([]byte("knock"))
			require.NoError(t, err)
			require.NoError(t, sink.SetReadDeadline(time.Now().Add(short)))
			_, _, err = sink.ReadFrom(make([]byte, 16))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, "no datagram arrives")

			require.NoError(t, b.EnsureShared(t.Context()))
			open(t, two, nil, "open")
			got, err := dial(t, twoNS, "203.0.113.1:80")
			require.NoError(t, err, "the rules are back, and let pass")
			require.Equal(t, "web 198.51.100.2", got)
		})
	}
}

// addRoute lets the internet answer to agents' own addresses: without the rules nothing is
// masqueraded.
func addRoute(t testing.TB, inet *NS, b *Bridge) {
	t.Helper()
	h, err := hostHandle()
	require.NoError(t, err)
	defer h.Close()
	s, err := scanLinks(h, b.Name())
	require.NoError(t, err)
	subnet, ok, err := (&change{Bridge: b, nl: h}).subnet(s)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, (&pair{ns: inet}).inside(t.Context(), func(h *netlink.Handle) error {
		return h.RouteReplace(&netlink.Route{Dst: ipNet(subnet.Addr(), subnet.Bits()), Gw: net.IPv4(198, 51, 100, 2)})
	}))
}
