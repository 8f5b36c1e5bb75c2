package worktree

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/fdtree"
)

// TestAnyTreeIsMeasured has one that is deeper than a path can name, as an agent can make it: the
// trash must stay listed.
func TestAnyTreeIsMeasured(t *testing.T) {
	const size, depth = 10_000, 600
	top := filepath.Join(t.TempDir(), "top")
	require.NoError(t, os.Mkdir(top, 0o755))
	t.Cleanup(func() { require.NoError(t, fdtree.RemoveAll(context.Background(), top)) })
	flat, err := DirSize(t.Context(), top)
	require.NoError(t, err)
	at, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(at, "0123456789", 0o755))
		below, err := unix.Openat(at, "0123456789", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = below
	}
	fd, err := unix.Openat(at, "file\xff", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	require.NoError(t, unix.Close(at))
	_, err = unix.Write(fd, make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, unix.Fsync(fd))
	require.NoError(t, unix.Close(fd))

	n, err := DirSize(t.Context(), top)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, flat+size)
	_, err = DirSize(t.Context(), filepath.Join(top, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
