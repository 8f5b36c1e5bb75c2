package egress

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSignedWordsChangeAList(t *testing.T) {
	for name, tc := range map[string]struct{ list, words, want string }{
		"add":                    {"x.org", "+y.org", "x.org,y.org"},
		"add to none":            {"none", "+x.org", "x.org"},
		"add to nothing":         {"", "+x.org", "x.org"},
		"add what is there":      {"x.org", "+X.org.", "x.org"},
		"remove":                 {"x.org,y.org", "-X.org", "y.org"},
		"remove the last":        {"x.org", "-x.org", "none"},
		"both":                   {"x.org,192.0.2.0/24", "+ask:z.org -192.0.2.0/24", "x.org,ask:z.org"},
		"ask about the rest":     {"x.org", "+ask", "x.org,ask"},
		"no more of that":        {"x.org,ask", "-ask", "x.org"},
		"in their order":         {"x.org", "-x.org +x.org", "x.org"},
		"a name and those of it": {"x.org,*.x.org", "-*.x.org", "x.org"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Change(strings.FieldsFunc(tc.list, func(r rune) bool { return r == ',' }), strings.Fields(tc.words))
			require.NoError(t, err)
			require.Equal(t, tc.want, strings.Join(got, ","))
		})
	}
}

func TestWordsThatChangeNoList(t *testing.T) {
	for name, tc := range map[string]struct{ list, word, want string }{
		"open":         {"open", "+x.org", `the list is "open"`},
		"a whole list": {"x.org", "+open", "is a whole list"},
		"none":         {"x.org", "-none", "is a whole list"},
		"not there":    {"x.org", "-y.org", `"y.org" is not in the list, which is x.org`},
		"no name":      {"x.org", "+https://y.org", `"+https://y.org"`},
		"only a sign":  {"x.org", "+", `"+"`},
		"two signs":    {"x.org", "+-y.org", `"+-y.org"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Change([]string{tc.list}, []string{tc.word})
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := Change(strings.Split("a.org b.org c.org d.org e.org f.org g.org h.org i.org j.org", " "), []string{"-y.org"})
	require.ErrorContains(t, err, "h.org and 2 more (polisctl --json agents list has all)")
	_, err = Relative([]string{"+x.org", "y.org"})
	require.ErrorContains(t, err, "+NAME and -NAME change the list")
	many := make([]string, MaxEntries+1)
	for i := range many {
		many[i] = "+" + strings.Repeat("a", 1+i%60) + strings.Repeat("b", i/60) + ".org"
	}
	_, err = Change(nil, many)
	require.ErrorContains(t, err, "at most 256")
}

// TestWhatIsAddedCanBeRemovedAgain, and the rest of the list is as it was.
func TestWhatIsAddedCanBeRemovedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(domain(), 0, 5, Normal).Draw(t, "list")
		name := domain().Draw(t, "name")
		before, err := Parse(list)
		require.NoError(t, err)
		if before.Name(name) {
			return
		}
		with, err := Change(list, []string{"+" + name})
		require.NoError(t, err)
		p, err := Parse(with)
		require.NoError(t, err)
		require.True(t, p.Name(name))
		without, err := Change(with, []string{"-" + name})
		require.NoError(t, err)
		require.Equal(t, before.Entries(), without)
	})
}
