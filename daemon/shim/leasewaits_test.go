package shim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTheLongestWaitForALeaseIsShown(t *testing.T) {
	var none *leaseWaits
	none.begin("x")()
	var w leaseWaits
	later := func() *api.Waiting { return w.waiting(time.Now().Add(leaseWaitShown)) }
	require.Nil(t, later())
	first := w.begin("a\x1b[2Jb")
	second := w.begin("c")
	got := later()
	require.Equal(t, `a\x1b[2Jb`, got.Path)
	require.Equal(t, `a lock on a\x1b[2Jb`, got.What)
	require.Equal(t, 2, got.Open)
	first()
	require.Equal(t, "c", later().Path)
	second()
	require.Nil(t, later())
	require.Empty(t, w.open)
}
