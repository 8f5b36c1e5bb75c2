package view

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs/policy"
)

// TestARightToWriteIsNoRightToRead: an open file that was renamed aside is written as a temporary one, and read by the rules of its
// former name, whatever the program has done with it since the rules changed.
func TestARightToWriteIsNoRightToRead(t *testing.T) {
	v := newTempView(t, policy.Rules{Read: []string{"src/*"}, Write: []string{"src/f", "src/g"}})
	for _, name := range []string{"f", "g"} {
		require.NoError(t, os.WriteFile(v.back+"/src/"+name, []byte("of the owner"), 0o644))
	}
	r, err := os.Open(v.at("src/f")) // the first open has no passthrough, which cannot be revoked
	require.NoError(t, err)
	defer r.Close()
	f, err := os.OpenFile(v.at("src/f"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Rename(v.at("src/f"), v.at("src/sedAbC123")))
	v.swap(policy.Rules{Read: []string{"src/*"}, Write: []string{"src/g"}, Deny: []string{"src/f"}})
	b := make([]byte, 20)
	for range 3 {
		_, err = f.ReadAt(b, 0)
		require.ErrorIs(t, err, os.ErrPermission)
		_, _ = f.WriteAt([]byte("x"), 0)
	}
}
