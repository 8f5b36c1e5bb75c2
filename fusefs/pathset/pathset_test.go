package pathset

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever was put in is found, and of the rest as good as nothing.
func TestASetHasWhatWasPutIn(t *testing.T) {
	name := rapid.StringMatching(`[a-c\xff]{1,3}(/[a-c.]{1,2}){0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(name).Draw(t, "in")
		have, dirs := map[string]bool{}, map[string]bool{}
		var one, two Builder
		for i, p := range in {
			have[p] = true
			for d := parent(p); d != ""; d = parent(d) {
				dirs[d] = true
			}
			if i%2 == 0 {
				one.Add(p)
			} else {
				two.Add(p)
			}
		}
		one.AddAll(&two)
		s, err := Parse(one.Bytes())
		require.NoError(t, err)
		for _, p := range append(in, rapid.SliceOf(name).Draw(t, "others")...) {
			require.Equal(t, have[p], s.Has(p), p)
			require.Equal(t, dirs[p], s.Below(p), p)
		}
	})
}

func TestWhatIsNoSet(t *testing.T) {
	for _, b := range []string{"", "polis", magic + "1", magic[1:], magicAll + "12345678"} {
		_, err := Parse([]byte(b))
		require.ErrorIs(t, err, ErrFormat, "%q", b)
	}
	s, err := Parse([]byte(magic))
	require.NoError(t, err)
	require.False(t, s.Has("a"))
	s, err = Parse([]byte(magicAll))
	require.NoError(t, err)
	require.True(t, s.Has("a") && s.Below("b"))
}
