package egress

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWhatAPersonDecidesAbout(t *testing.T) {
	for name, tc := range map[string]struct {
		policy                  []string
		allowed, asked, refused []string // names and addresses
	}{
		"the rest":            {[]string{"ask"}, nil, []string{"x.org", "a.b", "192.0.2.1"}, []string{"", ".", `evil\.x.org`}},
		"a list and the rest": {[]string{"x.org", "192.0.2.0/24", "ask"}, []string{"x.org", "X.org.", "192.0.2.1"}, []string{"a.x.org", "198.51.100.1"}, nil},
		"one name":            {[]string{"x.org", "ask:y.org"}, []string{"x.org"}, []string{"y.org", "Y.ORG."}, []string{"a.y.org", "z.org", "192.0.2.1"}},
		"all below a name":    {[]string{"ask:*.y.org"}, nil, []string{"a.y.org", "a.b.y.org"}, []string{"y.org", "ay.org"}},
		"a network":           {[]string{"ask:192.0.2.0/24"}, nil, []string{"192.0.2.9"}, []string{"192.0.3.1", "x.org"}},
		"ask is stronger":     {[]string{"*.x.org", "ask:secret.x.org", "192.0.2.0/24", "ask:192.0.2.7"}, []string{"a.x.org", "192.0.2.1"}, []string{"secret.x.org", "192.0.2.7"}, []string{"x.org"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := parse(t, tc.policy...)
			require.True(t, p.Asking())
			require.True(t, p.Listed(), "addresses are opened one by one")
			verdict := func(s string) (allowed, asked bool) {
				if a, err := netip.ParseAddr(s); err == nil {
					return p.Addr(a), p.AsksAddr(a)
				}
				return p.Name(s), p.Asks(s)
			}
			for want, list := range map[[2]bool][]string{{true, false}: tc.allowed, {false, true}: tc.asked, {false, false}: tc.refused} {
				for _, s := range list {
					allowed, asked := verdict(s)
					require.Equal(t, want, [2]bool{allowed, asked}, "%q", s)
				}
			}
			again := parse(t, p.Entries()...)
			require.Equal(t, p, again)
		})
	}
	for _, p := range []Policy{{}, parse(t, "open"), parse(t, "none"), parse(t, "x.org")} {
		require.False(t, p.Asking())
		require.False(t, p.Asks("y.org"))
		require.False(t, p.AsksAddr(netip.MustParseAddr("192.0.2.1")))
	}
	for _, bad := range [][]string{{"open", "ask"}, {"ask", "none"}, {"ask:"}, {"ask:open:x"}, {"ask:*"}, {"ask:0.0.0.0/0"}, {"ask:ask:x.org"}} {
		_, err := Parse(bad)
		require.Error(t, err, "%q", bad)
	}
}

// TestWithoutAPersonNothingMoreIsAllowed: and what needs an answer is not allowed at the same time.
func TestWithoutAPersonNothingMoreIsAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"x.org", "a.x.org", "b.a.x.org", "y.org", "a.y.org"}
		entries := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x.org", "*.x.org", "*.a.x.org", "y.org", "ask", "ask:x.org", "ask:*.x.org", "ask:a.y.org", "192.0.2.0/24", "ask:192.0.2.1"}),
			func(s string) string { return s }).Draw(t, "entries")
		p, err := Parse(entries)
		require.NoError(t, err)
		less, err := Parse(WithoutAsk(p.Entries()))
		require.NoError(t, err)
		require.False(t, less.Asking())
		for _, n := range names {
			require.False(t, p.Name(n) && p.Asks(n), "%v: %s", entries, n)
			require.False(t, less.Name(n) && !p.Name(n), "%v: %s", entries, n)
		}
		for _, s := range []string{"192.0.2.1", "192.0.2.2", "198.51.100.1"} {
			a := netip.MustParseAddr(s)
			require.False(t, p.Addr(a) && p.AsksAddr(a), "%v: %s", entries, s)
			require.False(t, less.Addr(a) && !p.Addr(a), "%v: %s", entries, s)
		}
	})
}
