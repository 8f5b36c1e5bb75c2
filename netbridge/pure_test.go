package netbridge

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNamesFitTheKernel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := namesFor(rapid.String().Draw(t, "instance"))
		agent := rapid.StringMatching(agentName.String()).Draw(t, "agent")
		other := rapid.StringMatching(agentName.String()).Draw(t, "other")
		require.LessOrEqual(t, len(n.bridge), 15)
		require.Len(t, n.veth(agent), 15)
		require.Regexp(t, vethName, n.veth(agent))
		if agent != other {
			require.NotEqual(t, n.veth(agent), n.veth(other))
		}
	})
}

func TestInstancesDoNotMeet(t *testing.T) {
	a, b, plain := namesFor("/run/one"), namesFor("/run/two"), namesFor("")
	require.Equal(t, names{bridge: "polis0", table: "polis"}, plain)
	require.NotEqual(t, a.bridge, b.bridge)
	require.NotEqual(t, a.table, b.table)
	require.NotEqual(t, a.veth("claude"), b.veth("claude"))
	require.NotEqual(t, a.veth("claude"), plain.veth("claude"))
}

func TestAgentNamesThatAreNoFileNamesAreRefused(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "a/b", "../x", "a b", "a\x00b", "-a", ".a", "ä", "a\n", strings.Repeat("a", 129)} {
		require.ErrorIs(t, checkAgent(bad), ErrInvalidName, "%q", bad)
	}
	for _, good := range []string{"a", "claude", "claude-2", "Ws.claude_1", strings.Repeat("a", 128)} {
		require.NoError(t, checkAgent(good), "%q", good)
	}
}

func TestAliasSurvivesTheKernel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := vethAlias{
			bridge: namesFor(rapid.String().Draw(t, "instance")).bridge,
			agent:  rapid.StringMatching(agentName.String()).Draw(t, "agent"),
			addr:   netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "addr"))),
		}
		require.LessOrEqual(t, len(a.String()), maxAlias)
		got, ok := parseVethAlias(a.String())
		require.True(t, ok)
		require.Equal(t, a, got)
	})
}

func FuzzParseVethAlias(f *testing.F) {
	f.Add("polis agent=claude addr=10.213.0.2 bridge=polis0")
	f.Add("polis agent= addr= bridge=")
	f.Add("docker0")
	f.Fuzz(func(t *testing.T, s string) {
		if a, ok := parseVethAlias(s); ok {
			require.Equal(t, s, a.String(), "only what we write is ours")
		}
	})
}

func FuzzParseDiag(f *testing.F) {
	f.Add(make([]byte, diagMsgLen))
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, m []byte) {
		if l, ok := parseDiag("tcp", m); ok {
			require.True(t, l.Addr.IsValid())
		}
	})
}

func TestSubnetAvoidsWhatTheHostUses(t *testing.T) {
	pool := DefaultPool()
	for name, tc := range map[string]struct {
		taken []string
		want  string
	}{
		"nothing taken":                 {nil, "10.213.0.0/22"},
		"default route does not count":  {[]string{"0.0.0.0/0"}, "10.213.0.0/22"},
		"nor do its parts":              {[]string{"0.0.0.0/1", "128.0.0.0/1", "0.0.0.0/5", "8.0.0.0/7"}, "10.213.0.0/22"},
		"first taken":                   {[]string{"10.213.0.0/22"}, "10.213.4.0/22"},
		"one address inside":            {[]string{"10.213.3.255/32", "10.213.5.0/24"}, "10.213.8.0/22"},
		"other networks":                {[]string{"192.168.0.0/16", "10.212.0.0/16"}, "10.213.0.0/22"},
		"a wide route takes everything": {[]string{"10.0.0.0/8"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var taken []netip.Prefix
			for _, s := range tc.taken {
				taken = append(taken, netip.MustParsePrefix(s))
			}
			got, err := freeSubnet(pool, taken)
			if tc.want == "" {
				require.ErrorIs(t, err, ErrNoSubnet)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got.String())
		})
	}
}

func TestSubnetsOfManyInstancesAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(16, 30).Draw(t, "pool bits")
		pool := netip.PrefixFrom(netip.MustParseAddr("10.213.0.0"), bits)
		var taken []netip.Prefix
		for {
			s, err := freeSubnet(pool, taken)
			if err != nil {
				require.ErrorIs(t, err, ErrNoSubnet)
				break
			}
			require.True(t, pool.Overlaps(s) && pool.Bits() <= s.Bits())
			require.False(t, overlapsAny(s, taken))
			require.True(t, s.Contains(gatewayOf(s)))
			taken = append(taken, s)
		}
		require.Len(t, taken, 1<<(max(bits, subnetBits)-bits))
	})
}

func TestAddressesAreUniqueAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subnet := netip.PrefixFrom(netip.MustParseAddr("10.213.8.0"), rapid.IntRange(24, 30).Draw(t, "bits"))
		taken := map[netip.Addr]bool{}
		room := 1<<(32-subnet.Bits()) - 3
		broadcast := addrAt(subnet, uint32(1)<<(32-subnet.Bits())-1)
		for i := range room {
			agent := rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "agent")
			a, err := freeAddr(subnet, agent, taken)
			require.NoError(t, err, "agent %d of %d", i, room)
			again, err := freeAddr(subnet, agent, taken)
			require.NoError(t, err)
			require.Equal(t, a, again)
			require.True(t, subnet.Contains(a))
			require.NotContains(t, []netip.Addr{subnet.Addr(), gatewayOf(subnet), broadcast}, a)
			require.False(t, taken[a])
			taken[a] = true
		}
		_, err := freeAddr(subnet, "late", taken)
		require.ErrorIs(t, err, ErrNoAddress)
	})
}

func TestConfigurationIsChecked(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no directory":       {},
		"relative directory": {NetnsDir: "run/netns"},
		"IPv6 pool":          {NetnsDir: "/x", Pool: netip.MustParsePrefix("fd00::/16")},
		"pool too small":     {NetnsDir: "/x", Pool: netip.MustParsePrefix("10.0.0.0/31")},
		"pool too large":     {NetnsDir: "/x", Pool: netip.MustParsePrefix("0.0.0.0/0")},
	} {
		_, err := New(cfg)
		require.Error(t, err, name)
	}
	b, err := New(Config{NetnsDir: "/x"})
	require.NoError(t, err)
	require.Equal(t, "polis0", b.Name())
	require.Equal(t, "polis", b.Table())
}

func tcpPorts(numbers ...uint16) (ps []Port) {
	for _, n := range numbers {
		ps = append(ps, Port{"tcp", n})
	}
	return ps
}

func TestWatcherStepReportsEachChangeOnce(t *testing.T) {
	w := &Watcher{Linger: 2 * time.Second, MaxPorts: 3}
	w.defaults()
	known := map[Port]time.Time{}
	at := time.Unix(1000, 0)
	tcp := func(ports ...uint16) (ls []Listener) {
		for _, p := range ports {
			ls = append(ls, Listener{Proto: "tcp", Addr: netip.IPv4Unspecified(), Port: p})
		}
		return ls
	}
	resolver := Listener{Proto: "tcp", Addr: DNSAddr().Addr(), Port: 53}

	require.Equal(t, Change{Added: tcpPorts(80, 3000)}, w.step(known, append(tcp(3000, 80, 3000), resolver), at))
	require.Equal(t, Change{}, w.step(known, tcp(80, 3000), at.Add(time.Second)))
	require.Equal(t, Change{}, w.step(known, tcp(80), at.Add(2*time.Second)), "a restart within the time keeps the port")
	require.Equal(t, Change{}, w.step(known, tcp(80, 3000), at.Add(4*time.Second)))
	require.Equal(t, Change{Removed: tcpPorts(3000)}, w.step(known, tcp(80), at.Add(7*time.Second)))
	require.Equal(t, Change{Added: tcpPorts(1, 2)}, w.step(known, tcp(80, 1, 2, 3, 4), at.Add(8*time.Second)), "bounded")
}

func TestWatcherLooksOnUntilAPortThatClosedIsGone(t *testing.T) {
	w := &Watcher{Linger: 2 * time.Second}
	w.defaults()
	known := map[Port]time.Time{}
	at := time.Unix(1000, 0)
	open := []Listener{{Proto: "tcp", Addr: netip.IPv4Unspecified(), Port: 80}}
	w.step(known, open, at)
	require.False(t, w.lingering)
	w.step(known, nil, at.Add(time.Second))
	require.True(t, w.lingering)
	w.step(known, open, at.Add(2*time.Second))
	require.False(t, w.lingering, "it came back")
	w.step(known, nil, at.Add(3*time.Second))
	require.True(t, w.lingering)
	require.Equal(t, Change{Removed: tcpPorts(80)}, w.step(known, nil, at.Add(5*time.Second)))
	require.False(t, w.lingering)
}

func TestWatcherDistinguishesUDPServersFromClients(t *testing.T) {
	w := &Watcher{}
	w.defaults()
	udp := func(a netip.Addr, port uint16) Listener { return Listener{Proto: "udp", Addr: a, Port: port} }
	got := w.step(map[Port]time.Time{}, []Listener{
		udp(netip.IPv4Unspecified(), 5000), udp(netip.IPv6Loopback(), 5000), {Proto: "tcp", Addr: netip.IPv6Unspecified(), Port: 5000},
		udp(netip.IPv4Unspecified(), firstEphemeral), udp(netip.IPv4Unspecified(), 65535), // the kernel's choice
		udp(netip.IPv4Unspecified(), 5353), udp(netip.IPv4Unspecified(), 1900), udp(netip.IPv6Unspecified(), 5355),
		udp(DNSAddr().Addr(), 53), udp(loopback(), 53),
		{Proto: "tcp", Addr: loopback(), Port: 40000},
	}, time.Unix(1, 0))
	require.Equal(t, Change{Added: []Port{{"tcp", 5000}, {"tcp", 40000}, {"udp", 53}, {"udp", 5000}}}, got)
}
