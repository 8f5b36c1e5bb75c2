package egress

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func parse(t testing.TB, entries ...string) Policy {
	t.Helper()
	p, err := Parse(entries)
	require.NoError(t, err)
	return p
}

func TestNamesThatAPolicyAllows(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  []string
		allowed []string
		refused []string
	}{
		"open":          {[]string{"open"}, []string{"x.org", "a.b.c", "localhost", ""}, nil},
		"none":          {[]string{"none"}, nil, []string{"x.org", "none", "", "."}},
		"an empty list": {nil, nil, []string{"x.org", "", "."}},
		"a name":        {[]string{"x.org"}, []string{"x.org", "X.ORG", "x.org.", "x.Org."}, []string{"a.x.org", "ax.org", "org", "x.org.evil", "x.org..", "", "."}},
		"all below a name": {[]string{"*.x.org"}, []string{"a.x.org", "a.b.x.org", "A.X.Org."},
			[]string{"x.org", "x.org.", "ax.org", "*.y.org", "a.x.org.evil", "org", `evil\.x.org.`, `evil\.x.org`, `a.evil\.x.org`, `evil\046x.org`, `\\.x.org`}},
		"both":                {[]string{"*.x.org", "x.org"}, []string{"x.org", "a.x.org"}, []string{"y.org"}},
		"capitals and a dot":  {[]string{"*.X.Org.", "API.y.com."}, []string{"a.x.org", "api.y.com"}, []string{"x.org", "y.com"}},
		"punycode as it is":   {[]string{"xn--bcher-kva.example"}, []string{"XN--BCHER-KVA.example"}, []string{"bücher.example", "bcher-kva.example"}},
		"one label":           {[]string{"intranet"}, []string{"intranet"}, []string{"a.intranet"}},
		"all of a top level":  {[]string{"*.org"}, []string{"x.org", "a.x.org"}, []string{"org", "x.com"}},
		"only networks":       {[]string{"192.0.2.0/24"}, nil, []string{"x.org", "192.0.2.1"}},
		"service names":       {[]string{"_dns._udp.x.org"}, []string{"_dns._udp.x.org"}, []string{"x.org"}},
		"folding is of ASCII": {[]string{"k.org"}, []string{"K.org"}, []string{"\u212a.org"}}, // Kelvin sign
	} {
		t.Run(name, func(t *testing.T) {
			p := parse(t, tc.policy...)
			for _, n := range tc.allowed {
				require.True(t, p.Name(n), "%q", n)
			}
			for _, n := range tc.refused {
				require.False(t, p.Name(n), "%q", n)
			}
		})
	}
	require.False(t, Policy{}.Name("x.org"), "the zero policy allows nothing")
	require.Equal(t, []string{None}, Policy{}.Entries())
}

func TestPoliciesThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "empty",
		".":                               "empty",
		"*":                               `write "open"`,
		"*.":                              "empty",
		"*.*":                             `write "open"`,
		"a.*.org":                         "stands only for all that is below",
		"*a.org":                          "stands only for all that is below",
		"*.*.org":                         "stands only for all that is below",
		"https://x.org":                   "without scheme",
		"x.org/path":                      "without scheme",
		"user@x.org":                      "without scheme",
		"x.org:443":                       "a port cannot be listed",
		"::1":                             "no IPv6",
		"2001:db8::/32":                   "no IPv6",
		"::ffff:192.0.2.1":                "no IPv6",
		"192.0.2.1/24":                    "begins at 192.0.2.0",
		"0.0.0.0/0":                       `write "open"`,
		"192.0.2.300":                     "neither a name nor",
		"1.2.3":                           "neither a name nor",
		"10.0.0.0/33":                     "without scheme",
		"-x.org":                          "not '-' at an end",
		"x-.org":                          "not '-' at an end",
		"x..org":                          "between dots",
		".x.org":                          "between dots",
		"b\u00fccher.example":             "xn--",
		"x org":                           "letters, digits",
		"x.org\x00":                       "letters, digits",
		"Open":                            `written "open"`,
		"open.":                           `written "open"`,
		"NONE":                            `written "none"`,
		"Ask":                             `written "ask"`,
		"ask.":                            `written "ask"`,
		strings.Repeat("a", 64):           "1 to 63",
		strings.Repeat("a.", 200) + "org": "253",
	} {
		_, err := Parse([]string{text})
		require.ErrorContains(t, err, want, "%q", text)
	}
	for _, both := range [][]string{{"open", "x.org"}, {"x.org", "none"}, {"open", "none"}, {"open", "open"}} {
		_, err := Parse(both)
		require.ErrorContains(t, err, "must stand alone", "%q", both)
	}
	_, err := Parse(make([]string, MaxEntries+1))
	require.ErrorContains(t, err, "at most 256")
}

func TestHostsOfABaseTypeAreAddedToListsOnly(t *testing.T) {
	more := []string{"*.z.org", "x.org"}
	for _, tc := range []struct{ base, want string }{{"open", "open"}, {"none", "none"}, {"x.org", "x.org,*.z.org"}} {
		p, err := parse(t, tc.base).With(more)
		require.NoError(t, err)
		require.Equal(t, tc.want, p.String())
	}
}

func label() *rapid.Generator[string] {
	return rapid.StringMatching(`[a-z0-9]([a-z0-9_-]{0,6}[a-z0-9])?`)
}

func domain() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		ls := rapid.SliceOfN(label(), 1, 5).Draw(t, "labels")
		return strings.Join(append(ls, rapid.StringMatching(`[a-z]{2,5}`).Draw(t, "top")), ".")
	})
}

// styled is the same name in another spelling.
func styled(t *rapid.T, name string) string {
	b := []byte(name)
	for i := range b {
		if rapid.Bool().Draw(t, "capital") && 'a' <= b[i] && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	if rapid.Bool().Draw(t, "dot") {
		return string(b) + "."
	}
	return string(b)
}

// A second description of what is allowed, slow and by labels.
func model(entries []string, name string) bool {
	split := func(s string) []string { return strings.Split(strings.ToLower(strings.TrimSuffix(s, ".")), ".") }
	n := split(name)
	for _, e := range entries {
		w := split(e)
		if w[0] != "*" {
			if strings.Join(w, ".") == strings.Join(n, ".") {
				return true
			}
			continue
		}
		if w = w[1:]; len(n) > len(w) && strings.Join(n[len(n)-len(w):], ".") == strings.Join(w, ".") {
			return true
		}
	}
	return false
}

func TestPolicyOfNamesIsThatOfItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"", "*."}).Draw(t, "kind") + styled(t, domain().Draw(t, "name"))
		}), 1, 6).Draw(t, "entries")
		p, err := Parse(entries)
		if err != nil {
			t.Fatal(err)
		}
		// Names near the entries, and far ones.
		base := strings.TrimPrefix(rapid.SampledFrom(entries).Draw(t, "near"), "*.")
		for _, n := range []string{base, "a." + base, "a" + base, base + "a", base + ".a", strings.TrimLeft(base, "abcdefghijklmnopqrstuvwxyz"), domain().Draw(t, "far")} {
			if got, want := p.Name(n), model(entries, n); got != want && n != "" && n[0] != '.' {
				t.Fatalf("%q allows %q: %v, want %v", entries, n, got, want)
			}
			if p.Name(n) != p.Name(styled(t, strings.TrimSuffix(n, "."))) {
				t.Fatalf("case or final dot of %q make a difference to %q", n, entries)
			}
		}
	})
}

func TestWildcardNeverIncludesItsBase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := domain().Draw(t, "name")
		p, err := Parse([]string{"*." + d})
		if err != nil {
			t.Fatal(err)
		}
		if p.Name(styled(t, d)) || !p.Name(styled(t, "www."+d)) || p.Name("x"+d) {
			t.Fatalf("*.%s is wrong about %s", d, d)
		}
	})
}

func TestEntriesAreReadBackAsTheSamePolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []string
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				entries = append(entries, styled(t, domain().Draw(t, "name")))
			case 1:
				entries = append(entries, "*."+styled(t, domain().Draw(t, "name")))
			case 2:
				entries = append(entries, prefix().Draw(t, "net").String())
			}
		}
		p, err := Parse(entries)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse(p.Entries())
		if err != nil || q.String() != p.String() {
			t.Fatalf("%q became %q, then %q: %v", entries, p, q, err)
		}
	})
}

func prefix() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(b)), rapid.IntRange(1, 32).Draw(t, "bits")).Masked()
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"open", "Open", "ask:Open", "none", "x.org", "*.x.org", "10.0.0.0/8", "xn--a.b", "*", "a..b", "::1", "x:1", "\xff"} {
		f.Add(s, "a.x.org")
	}
	f.Fuzz(func(t *testing.T, entry, name string) {
		p, err := Parse([]string{entry})
		if err != nil {
			return
		}
		again, err := Parse(p.Entries())
		require.NoError(t, err)
		require.Equal(t, p.String(), again.String())
		require.Equal(t, p.Name(name), again.Name(name))
		if !p.Open() && p.Name(name) {
			n := Normal(name)
			e := p.Entries()[0]
			require.True(t, n == e || strings.HasSuffix(n, strings.TrimPrefix(e, "*")), "%q allows %q", e, name)
		}
	})
}

func TestClosedNetworksAreThePrivateOnesWithoutTheAllowed(t *testing.T) {
	require.Equal(t, Private(), Closed(nil))
	got := Closed([]netip.Prefix{netip.MustParsePrefix("10.128.0.0/9"), netip.MustParsePrefix("192.168.0.0/16")})
	require.Equal(t, "[10.0.0.0/9 100.64.0.0/10 172.16.0.0/12]", strings.ReplaceAll(strings.TrimSpace(sprint(got)), ", ", " "))
	rapid.Check(t, func(t *rapid.T) {
		allowed := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
			in := rapid.SampledFrom(Private()).Draw(t, "in")
			b := in.Addr().As4()
			for i, v := range rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address") {
				for bit := range 8 {
					if i*8+bit >= in.Bits() {
						b[i] |= v & (0x80 >> bit)
					}
				}
			}
			return netip.PrefixFrom(netip.AddrFrom4(b), rapid.IntRange(in.Bits(), 32).Draw(t, "bits")).Masked()
		}), 0, 5).Draw(t, "allowed")
		closed := Closed(allowed)
		for _, p := range append(allowed, Private()...) {
			for range 8 {
				a := randomIn(p)
				if want := contains(Private(), a) && !contains(allowed, a); contains(closed, a) != want {
					t.Fatalf("%v is closed: %v, allowed %v, closed %v", a, !want, allowed, closed)
				}
			}
		}
	})
}

func sprint(ps []netip.Prefix) string {
	var s []string
	for _, p := range ps {
		s = append(s, p.String())
	}
	return "[" + strings.Join(s, " ") + "]"
}

func randomIn(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := range 32 {
		if i >= p.Bits() && rand.IntN(2) == 0 {
			b[i/8] |= 0x80 >> (i % 8)
		}
	}
	return netip.AddrFrom4(b)
}

func TestAnswersThatPointInwardsAreLeftOut(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("198.51.100.2/32")}
	allowed, err := ParsePrivate([]string{"10.1.0.0/16"})
	require.NoError(t, err)
	for addr, want := range map[string]bool{
		"203.0.113.1": true, "127.0.0.1": true, "0.0.0.0": true, "10.1.2.3": true, "::ffff:203.0.113.1": true,
		"10.2.0.1": false, "192.168.1.1": false, "172.31.0.1": false, "100.64.0.1": false, "169.254.169.254": false, "168.63.129.16": false,
		"198.51.100.2": false, "224.0.0.1": false, "255.255.255.255": false, "2001:db8::1": false, "::1": false, "fd00:ec2::254": false,
	} {
		require.Equal(t, want, Answerable(netip.MustParseAddr(addr), allowed, own), addr)
	}
}

func TestPrivateNetworksThatCannotBeAllowed(t *testing.T) {
	for _, bad := range []string{"8.8.8.8", "0.0.0.0/0", "8.0.0.0/6", "10.0.0.1/8", "fd00::/8", "x.org", "", "169.254.0.0/16", "127.0.0.0/8"} {
		_, err := ParsePrivate([]string{bad})
		require.Error(t, err, bad)
	}
	ps, err := ParsePrivate([]string{"10.0.0.0/8", "192.168.1.7"})
	require.NoError(t, err)
	require.Len(t, ps, 2)
}
