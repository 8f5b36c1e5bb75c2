package netbridge

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"polis/netbridge/egress"
)

// zone answers from lines of a zone file.
func zone(t testing.TB, records map[string][]string) dns.HandlerFunc {
	t.Helper()
	return func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		lines, ok := records[egress.Normal(q.Question[0].Name)]
		if !ok {
			r.Rcode = dns.RcodeNameError
		}
		for _, l := range lines {
			rr, err := dns.NewRR(l)
			if err != nil {
				t.Errorf("record %q: %v", l, err)
				continue
			}
			r.Answer = append(r.Answer, rr)
		}
		extra, err := dns.NewRR("unasked.example. 60 IN A 203.0.113.66")
		if err == nil {
			r.Extra = append(r.Extra, extra)
		}
		_ = w.WriteMsg(r)
	}
}

func TestAnswersHoldWhatWasQueriedAndIsAllowed(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	resolver(t, "127.0.1.1", zone(t, map[string][]string{
		"plain.example":  {"plain.example. 300 IN A 203.0.113.1", "other.example. 300 IN A 203.0.113.66"},
		"alias.example":  {"alias.example. 300 IN CNAME cdn.example.", "cdn.example. 20 IN CNAME Edge.cdn.example.", "edge.cdn.example. 60 IN A 203.0.113.2"},
		"circle.example": {"circle.example. 1 IN CNAME circle.example."},
		"mixed.example":  {"mixed.example. 60 IN A 203.0.113.3", "mixed.example. 60 IN A 10.0.0.1", "mixed.example. 60 IN A 169.254.169.254"},
		"rebind.example": {"rebind.example. 0 IN A 192.168.1.1"},
		"text.example":   {"text.example. 60 IN TXT \"hello\"", "text.example. 60 IN A 203.0.113.66"},
		"six.example":    {"six.example. 60 IN AAAA 2001:db8::1"},
		"broken.example": {"broken.example. 60 IN A 203.0.113.9"},
	}))
	type admitted struct {
		addrs []netip.Addr
		ttl   time.Duration
	}
	var mu sync.Mutex
	got := map[string]admitted{}
	openDNS(t, &DNS{NS: ns, ResolvConf: resolvFile(t, "127.0.1.1"), Log: testLog(t),
		Admit: func(a Asked, addrs []netip.Addr, ttl time.Duration) ([]netip.Addr, error) {
			if a.Name == "broken.example" {
				return nil, errors.New("no room")
			}
			mu.Lock()
			got[a.Name] = admitted{addrs, ttl}
			mu.Unlock()
			var out []netip.Addr
			for _, ip := range addrs {
				if egress.Answerable(ip, nil, nil) {
					out = append(out, ip)
				}
			}
			return out, nil
		}})
	ask := func(name string, kind uint16) *dns.Msg {
		r, err := exchange(t, ns, "udp", new(dns.Msg).SetQuestion(dns.Fqdn(name), kind).SetEdns0(1232, false))
		require.NoError(t, err)
		for _, rr := range r.Extra {
			require.Equal(t, dns.TypeOPT, rr.Header().Rrtype, "nothing else was asked for")
		}
		return r
	}
	answers := func(r *dns.Msg) (out []string) {
		for _, rr := range r.Answer {
			switch rr := rr.(type) {
			case *dns.A:
				out = append(out, rr.A.String())
			case *dns.CNAME:
				out = append(out, rr.Target)
			default:
				out = append(out, dns.Type(rr.Header().Rrtype).String())
			}
		}
		return out
	}
	require.Equal(t, []string{"203.0.113.1"}, answers(ask("plain.example", dns.TypeA)))
	require.Equal(t, []string{"cdn.example.", "Edge.cdn.example.", "203.0.113.2"}, answers(ask("Alias.example", dns.TypeA)))
	mu.Lock()
	alias := got["alias.example"]
	mu.Unlock()
	require.Equal(t, admitted{[]netip.Addr{netip.MustParseAddr("203.0.113.2")}, 20 * time.Second}, alias, "the shortest time on the way")
	require.Equal(t, []string{"circle.example."}, answers(ask("circle.example", dns.TypeA)))
	require.Equal(t, []string{"203.0.113.3"}, answers(ask("mixed.example", dns.TypeA)))

	r := ask("rebind.example", dns.TypeA)
	require.Equal(t, dns.RcodeNameError, r.Rcode, "it points inwards only")
	require.Len(t, r.IsEdns0().Option, 1)
	require.Equal(t, uint16(dns.ExtendedErrorCodeProhibited), r.IsEdns0().Option[0].(*dns.EDNS0_EDE).InfoCode)

	require.Equal(t, []string{"TXT"}, answers(ask("text.example", dns.TypeTXT)))
	for _, kind := range []uint16{dns.TypeAAAA, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeANY} {
		r := ask("six.example", kind)
		require.Equal(t, dns.RcodeSuccess, r.Rcode)
		require.Empty(t, r.Answer, dns.Type(kind).String())
	}
	require.Equal(t, dns.RcodeNameError, ask("unknown.example", dns.TypeA).Rcode)
	require.Equal(t, dns.RcodeServerFailure, ask("broken.example", dns.TypeA).Rcode, "an address that is not open is not returned")
}

func FuzzFollow(f *testing.F) {
	m := new(dns.Msg).SetQuestion("a.example.", dns.TypeA)
	for _, l := range []string{"a.example. 1 IN CNAME b.example.", "b.example. 1 IN CNAME a.example.", "b.example. 1 IN A 192.0.2.1"} {
		rr, err := dns.NewRR(l)
		require.NoError(f, err)
		m.Answer = append(m.Answer, rr)
	}
	b, err := m.Pack()
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m := new(dns.Msg)
		if m.Unpack(b) != nil {
			return
		}
		chain, found, ttl := follow(m.Answer, "a.example")
		require.LessOrEqual(t, len(chain)+len(found), len(m.Answer))
		require.LessOrEqual(t, ttl, maxTTL)
		require.GreaterOrEqual(t, ttl, time.Duration(0))
	})
}
