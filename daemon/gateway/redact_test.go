package gateway

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Feature: multi-agent-workspaces, Property: no form of a key is in an answer, however it is cut into reads,
// and all other bytes are
func TestNoReadHasAFormOfTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 1, 4, -1)
		var keys [][]byte
		for _, k := range rapid.SliceOfN(word, 1, 4).Draw(t, "forms") {
			keys = append(keys, []byte(k))
		}
		text := []byte(rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 60, -1).Draw(t, "text"))
		r := io.Reader(bytes.NewReader(text))
		if rapid.Bool().Draw(t, "bytes") {
			r = iotest.OneByteReader(r)
		}
		if rapid.Bool().Draw(t, "end with data") {
			r = iotest.DataErrReader(r)
		}
		got, err := io.ReadAll(newRedactor(r, newSearch(keys)))
		require.NoError(t, err)
		require.Len(t, got, len(text))
		covered := make([]bool, len(text))
		for _, k := range keys {
			require.NotContains(t, string(got), string(k))
			for i := range text {
				if bytes.HasPrefix(text[i:], k) {
					for j := range k {
						covered[i+j] = true
					}
				}
			}
		}
		for i := range text {
			if !covered[i] {
				require.Equal(t, string(text[i]), string(got[i]), "%q became %q", text, got)
			}
		}
	})
}

func TestABeginningOfAKeyIsHeldBackAndNothingElse(t *testing.T) {
	key := "sk-secret-" + strings.Repeat("x", 200)
	in := make(chan string, 4)
	r := newRedactor(readerFunc(func(p []byte) (int, error) {
		s, ok := <-in
		if !ok {
			return 0, errors.New("cut")
		}
		return copy(p, s), nil
	}), newSearch(forms(key)))
	p := make([]byte, 1000)
	for _, c := range []struct{ in, out string }{{"a token", "a token"}, {"\n", "\n"}, {"and sk-sec", "and "}, {"ond", "sk-second"}, {"s", ""}, {key[1:] + "!", strings.Repeat("*", len(key)) + "!"}} {
		in <- c.in
		if c.out == "" {
			continue // decided by the next part
		}
		n, err := r.Read(p)
		require.NoError(t, err)
		require.Equal(t, c.out, string(p[:n]))
	}
	in <- key[:50]
	close(in)
	n, err := r.Read(p)
	require.EqualError(t, err, "cut")
	require.Equal(t, key[:50], string(p[:n]), "of an answer that is cut, nothing is missing")
}
