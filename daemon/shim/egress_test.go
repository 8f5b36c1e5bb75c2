package shim

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/netbridge"
	"polis/netbridge/egress"
)

// TestWhatIsRememberedOfAnswersIsBounded, whatever names and addresses are queried.
func TestWhatIsRememberedOfAnswersIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name   string
		policy []string
		until  time.Time
	}{
		{"everything is open", []string{"open"}, now.Add(time.Hour)},
		{"a list, and no address of an answer is open any more", []string{"*.x.org"}, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := egress.Parse(c.policy)
			require.NoError(t, err)
			g := &egressGuard{e: netbridge.Egress{Policy: p}, resolved: map[netip.Addr]*resolved{}}
			var last netip.Addr
			for i := range remembered + 100 {
				last = netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
				g.remember(last, fmt.Sprintf("%d.x.org", i), now.Add(time.Duration(i))).until = c.until
				for n := range 2 * namesEach {
					g.remember(last, fmt.Sprintf("%d.%d.x.org", n, i), now.Add(time.Duration(i)))
				}
			}
			require.Len(t, g.resolved, remembered)
			require.Len(t, g.resolved[last].names, namesEach)
			require.NotContains(t, g.resolved, netip.AddrFrom4([4]byte{203, 0, 0, 0}), "the one that was not asked for the longest")
		})
	}
}

func TestAnAddressThatIsOpenByItsNameIsNotForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	p, err := egress.Parse([]string{"*.x.org"})
	require.NoError(t, err)
	g := &egressGuard{e: netbridge.Egress{Policy: p}, resolved: map[netip.Addr]*resolved{}}
	first := netip.MustParseAddr("203.0.113.1")
	g.remember(first, "a.x.org", now).until = now.Add(time.Hour)
	for i := range remembered + 100 {
		g.remember(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}), "b.x.org", now.Add(time.Second))
	}
	require.Contains(t, g.resolved, first)
}
