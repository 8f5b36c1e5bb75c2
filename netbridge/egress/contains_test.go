package egress

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestContains(t *testing.T) {
	for name, tc := range map[string]struct {
		parent, worker []string
		outside        string
	}{
		"the same":                                  {[]string{"x.org", "*.y.org", "10.0.0.0/8"}, []string{"x.org", "*.y.org", "10.0.0.0/8"}, ""},
		"a part":                                    {[]string{"x.org", "*.y.org", "10.0.0.0/8"}, []string{"a.y.org", "*.b.y.org", "10.1.0.0/16"}, ""},
		"nothing of all":                            {[]string{Open}, []string{None}, ""},
		"all of a list":                             {[]string{"x.org"}, []string{Open}, Open},
		"another name":                              {[]string{"x.org"}, []string{"y.org"}, "y.org"},
		"the name above":                            {[]string{"*.x.org"}, []string{"x.org"}, "x.org"},
		"a wider network":                           {[]string{"10.0.0.0/16"}, []string{"10.0.0.0/8"}, "10.0.0.0/8"},
		"a question of the parent's":                {[]string{"ask:x.org"}, []string{"ask:x.org"}, ""},
		"a question about what is allowed":          {[]string{"*.x.org"}, []string{"ask:a.x.org"}, ""},
		"a question about something else":           {[]string{"ask:x.org"}, []string{"ask:y.org"}, "ask:y.org"},
		"questions about everything":                {[]string{"x.org"}, []string{"x.org", Ask}, Ask},
		"a question where nothing is allowed":       {[]string{None}, []string{"ask:x.org"}, "ask:x.org"},
		"any question of a parent with ask for all": {[]string{Ask}, []string{"ask:x.org", Ask}, ""},
		"what the parent asks about":                {[]string{"ask:x.org"}, []string{"x.org"}, "x.org"},
		"more than what the parent asks about":      {[]string{"*.x.org", "ask:a.x.org"}, []string{"*.x.org"}, "*.x.org"},
		"all but what the parent asks about":        {[]string{"*.x.org", "ask:a.x.org"}, []string{"*.x.org", "ask:a.x.org"}, ""},
		"beside what the parent asks about":         {[]string{"*.x.org", "ask:a.x.org"}, []string{"*.b.x.org"}, ""},
		"a network with what the parent asks":       {[]string{"10.0.0.0/8", "ask:10.1.0.0/16"}, []string{"10.0.0.0/8"}, "10.0.0.0/8"},
		"a network beside what the parent asks":     {[]string{"10.0.0.0/8", "ask:10.1.0.0/16"}, []string{"10.2.0.0/16"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse(tc.parent)
			require.NoError(t, err)
			q, err := Parse(tc.worker)
			require.NoError(t, err)
			outside, ok := p.Contains(q)
			require.Equal(t, tc.outside == "", ok, outside)
			if !ok {
				require.Equal(t, tc.outside, outside)
			}
		})
	}
}

// TestWhatIsContainedAllowsNoMore compares two lists by what they decide.
func TestWhatIsContainedAllowsNoMore(t *testing.T) {
	names := []string{"x.org", "a.x.org", "b.x.org", "c.a.x.org", "y.org", "a.y.org"}
	addrs := []string{"10.0.0.1", "10.1.0.1", "10.1.2.3", "192.0.2.1"}
	entries := []string{Ask, "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "192.0.2.0/24"}
	for _, n := range names {
		entries = append(entries, n, "*."+n)
	}
	for _, e := range entries[1:] {
		entries = append(entries, askPrefix+e)
	}
	list := rapid.OneOf(rapid.Just([]string{Open}), rapid.Just([]string{None}), rapid.SliceOfN(rapid.SampledFrom(entries), 1, 5))
	contained := 0
	rapid.Check(t, func(t *rapid.T) {
		p, err := Parse(list.Draw(t, "parent"))
		require.NoError(t, err)
		// Mostly a part of the parent's, or else hardly any would be contained.
		draw := list
		if own := p.Entries(); own[0] != Open && own[0] != None && rapid.IntRange(0, 3).Draw(t, "part") > 0 {
			draw = rapid.SliceOfN(rapid.SampledFrom(own), 1, 5)
		}
		q, err := Parse(draw.Draw(t, "worker"))
		require.NoError(t, err)
		if _, ok := p.Contains(q); !ok {
			return
		}
		contained++
		for _, n := range names {
			require.False(t, q.Name(n) && !p.Name(n), "%s is allowed by %s, not by %s", n, q, p)
			require.False(t, q.Asks(n) && !p.Name(n) && !p.Asks(n), "a question about %s with %s, which %s refuses", n, q, p)
		}
		for _, s := range addrs {
			a := netip.MustParseAddr(s)
			require.False(t, q.Addr(a) && !p.Addr(a), "%s is allowed by %s, not by %s", a, q, p)
			require.False(t, q.AsksAddr(a) && !p.Addr(a) && !p.AsksAddr(a), "a question about %s with %s, which %s refuses", a, q, p)
		}
	})
	require.Positive(t, contained)
}
