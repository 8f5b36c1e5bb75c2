package netbridge

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"polis/netbridge/egress"
)

// The cost of a refused connection: logged, with the search for the socket (most exceed the rate
// of the log).
func BenchmarkRefusedConnection(b *testing.B) {
	br := newBridge(b)
	internet(b)
	ep, ns := ensure(b, br, "claude")
	open(b, ep, nil, egress.None)
	for b.Loop() {
		_, err := dial(b, ns, "203.0.113.1:80")
		require.Error(b, err)
	}
}

// What the gate adds to an answer: the same with and without opening addresses.
func BenchmarkAnswer(b *testing.B) {
	br := newBridge(b)
	ep, ns := ensure(b, br, "claude")
	g, _ := open(b, ep, nil, "*.example")
	n := 0
	resolver(b, "127.0.1.1", says("203.0.113.1"))
	for name, admit := range map[string]func(Asked, []netip.Addr, time.Duration) ([]netip.Addr, error){
		"plain": nil,
		"opened": func(_ Asked, addrs []netip.Addr, _ time.Duration) ([]netip.Addr, error) {
			n++
			return addrs, g.Allow(map[netip.Addr]time.Duration{netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)}): time.Second}, nil)
		},
		"renewed": func(_ Asked, addrs []netip.Addr, _ time.Duration) ([]netip.Addr, error) {
			return addrs, g.Allow(nil, map[netip.Addr]time.Duration{addrs[0]: time.Minute})
		},
	} {
		b.Run(name, func(b *testing.B) {
			d := &DNS{NS: ns, ResolvConf: resolvFile(b, "127.0.1.1"), Log: testLog(b), Admit: admit}
			require.NoError(b, d.Open(b.Context()))
			defer func() { require.NoError(b, d.Close()) }()
			for b.Loop() {
				r, err := exchange(b, ns, "udp", new(dns.Msg).SetQuestion("a.example.", dns.TypeA))
				require.NoError(b, err)
				require.Len(b, r.Answer, 1)
			}
		})
	}
}

// What it costs to change a policy, with as many agents as one has.
func BenchmarkSetGate(b *testing.B) {
	br := newBridge(b)
	var ep Endpoint
	for _, n := range []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10"} {
		ep, _ = ensure(b, br, n)
	}
	g, e := open(b, ep, nil, "*.example")
	for b.Loop() {
		require.NoError(b, g.Set(b.Context(), e, nil, nil))
	}
}
