package shim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api/wire"
)

// What waits for a dead shim is released before anything else is cleared up, and no other mount is touched.
func TestConnectionsOfAnotherAgentAreNotAborted(t *testing.T) {
	v := mountLeased(t, everything) // of the agent "test"
	n := 0
	alive := func() error { n++; return unix.Access(fmt.Sprintf("%s/none%d", v.mnt, n), unix.F_OK) } // the kernel remembers names
	require.NoError(t, abortViews(wire.Spec{Agent: "other", Mountpoint: v.mnt, RunDir: t.TempDir()}))
	require.ErrorIs(t, alive(), unix.ENOENT)
	require.NoError(t, abortViews(wire.Spec{Agent: "test", Mountpoint: v.mnt + "x", RunDir: t.TempDir()}))
	require.ErrorIs(t, alive(), unix.ENOENT)
	require.NoError(t, abortViews(wire.Spec{Agent: "test", Mountpoint: v.mnt, RunDir: t.TempDir()}))
	require.ErrorIs(t, alive(), unix.ENOTCONN)
	require.NoError(t, abortViews(wire.Spec{Agent: "test", Mountpoint: v.mnt, RunDir: t.TempDir()}), "twice")
}
