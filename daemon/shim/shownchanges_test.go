package shim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
)

// More paths than are noted are counted, and known to be missing until the next set.
func TestAnnouncedPathsBeyondTheLimitAreCounted(t *testing.T) {
	var a announced
	seen := 0
	see := func(string) fusefs.Seen { seen++; return fusefs.Seen{} }
	for range 2 {
		for i := range maxAnnounced {
			a.add(fmt.Sprint(i), see)
		}
	}
	paths, lost, over := a.take()
	require.Len(t, paths, maxAnnounced)
	require.False(t, lost)
	require.Zero(t, over)
	require.Equal(t, maxAnnounced, seen, "each is read once, as it was first")

	for i := range maxAnnounced + 3 {
		a.add(fmt.Sprint(i), see)
	}
	paths, lost, over = a.take()
	require.Len(t, paths, maxAnnounced)
	require.True(t, lost)
	require.Equal(t, 3, over)
	paths, lost, over = a.take()
	require.Empty(t, paths)
	require.False(t, lost)
	require.Zero(t, over)
}
