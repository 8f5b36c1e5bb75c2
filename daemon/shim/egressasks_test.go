package shim

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/netbridge"
	"polis/netbridge/egress"
)

// TestWhatAQuestionAboutAConnectionNames: a name that the agent resolved and the policy asks about,
// else the address if the policy asks about that.
func TestWhatAQuestionAboutAConnectionNames(t *testing.T) {
	now := time.Unix(1000, 0)
	at := netip.MustParseAddr
	guard := func(entries ...string) *egressGuard {
		p, err := egress.Parse(entries)
		require.NoError(t, err)
		g := &egressGuard{e: netbridge.Egress{Policy: p}, resolved: map[netip.Addr]*resolved{}, now: func() time.Time { return now }}
		g.own, g.read = []netip.Prefix{netip.MustParsePrefix("198.51.100.9/32")}, now
		g.remember(at("203.0.113.1"), "a.y.org", now)
		g.remember(at("203.0.113.1"), "b.y.org", now)
		g.remember(at("203.0.113.1"), "x.org", now)
		return g
	}
	for name, tc := range map[string]struct {
		entries []string
		addr    string
		what    string
		asks    bool
	}{
		"the last name that needs an answer": {[]string{"x.org", "ask"}, "203.0.113.1", "b.y.org", true},
		"of some names":                      {[]string{"ask:a.y.org"}, "203.0.113.1", "a.y.org", true},
		"an address without a name":          {[]string{"ask"}, "203.0.113.2", "203.0.113.2", true},
		"an address that is listed":          {[]string{"ask:203.0.113.0/24"}, "203.0.113.2", "203.0.113.2", true},
		"a name that is not listed":          {[]string{"ask:z.org"}, "203.0.113.1", "", false},
		"a list without ask":                 {[]string{"x.org"}, "203.0.113.1", "", false},
		"open":                               {[]string{"open"}, "203.0.113.1", "", false},
		"the host":                           {[]string{"ask"}, "198.51.100.9", "", false},
		"a private network":                  {[]string{"ask"}, "10.1.2.3", "", false},
		"metadata":                           {[]string{"ask"}, "169.254.169.254", "", false},
	} {
		what, asks := guard(tc.entries...).asked(at(tc.addr))
		require.Equal(t, tc.asks, asks, name)
		if asks {
			require.Equal(t, tc.what, what, name)
		}
	}
	require.Error(t, guard("x.org").approve("b.y.org", at("203.0.113.1")), "the policy has changed since")
}
