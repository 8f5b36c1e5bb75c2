package gitdir

import (
	"crypto/sha1"
	"crypto/sha256"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two contents with one SHA-1 name (the beginnings of the two files of
// https://shattered.io) have none here; in SHA-256 nothing is refused.
func TestAHalfOfACollisionIsNoObject(t *testing.T) {
	sums := map[[sha1.Size]byte]bool{}
	for _, name := range []string{"testdata/shattered-1", "testdata/shattered-2"} {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		sums[sha1.Sum(b)] = true
		h := objectHash(sha1.Size)
		_, err = h.Write(b)
		require.NoError(t, err)
		_, err = objectSum(h)
		require.ErrorContains(t, err, "SHA-1 collision")

		h = objectHash(sha256.Size)
		_, err = h.Write(b)
		require.NoError(t, err)
		got, err := objectSum(h)
		require.NoError(t, err)
		want := sha256.Sum256(b)
		require.Equal(t, want[:], got)
	}
	require.Len(t, sums, 1, "they do collide")

	h := objectHash(sha1.Size)
	_, err := h.Write([]byte("blob 0\x00"))
	require.NoError(t, err)
	got, err := objectSum(h)
	require.NoError(t, err)
	want := sha1.Sum([]byte("blob 0\x00"))
	require.Equal(t, want[:], got)
}
