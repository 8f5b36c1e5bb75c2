package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPathsOfAnyBytesInMessagesAndJSON(t *testing.T) {
	for path, want := range map[string]string{"a b/ü": "a b/ü", "a\nb": `"a\nb"`, "a\xff": `"a\xff"`, "\x1b[2J": `"\x1b[2J"`, `"a`: `"\"a"`} {
		require.Equal(t, want, PrintPath(path))
	}
	rapid.Check(t, func(t *rapid.T) {
		path := string(rapid.SliceOf(rapid.Byte()).Draw(t, "path"))
		require.Equal(t, path, DecodePath(EncodePath(path)))
	})
}
