package worktree

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	flat, err := dirSize(t.Context(), top)
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

	n, err := dirSize(t.Context(), top)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, flat+size)
	_, err = dirSize(t.Context(), filepath.Join(top, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestGCDeletesWhatIsOlderThanTheDate(t *testing.T) {
	needRoot(t)
	ctx := t.Context()
	w := up(t, spec(t, project(t)))
	for _, name := range []string{"saved", "whole"} {
		tree, err := w.Add(ctx, name, "", "")
		require.NoError(t, err)
		write(t, tree.Path+"/work", "x\n")
		chown(t, tree.Path)
	}
	gone, err := w.Discard(ctx, "saved", "agent/saved")
	require.NoError(t, err)
	dir, err := w.MoveToTrash(ctx, "whole", ErrUnreadable)
	require.NoError(t, err)
	refs := func() int {
		list, err := w.Trash(ctx, "")
		require.NoError(t, err)
		return len(list)
	}

	removed, kept, err := w.GC(ctx, time.Now().Add(-time.Hour), false)
	require.NoError(t, err)
	require.Empty(t, removed, "none is an hour old")
	require.Len(t, kept, 2)
	later := time.Now().Add(time.Hour)
	removed, kept, err = w.GC(ctx, later, true)
	require.NoError(t, err)
	require.Empty(t, kept)
	require.Len(t, removed, 2)
	require.Equal(t, gone.Ref, removed[0].Ref)
	require.Equal(t, dir, removed[1].Path)
	require.Equal(t, 1, refs(), "a dry run deletes nothing")
	require.DirExists(t, dir)
	again, _, err := w.GC(ctx, later, false)
	require.NoError(t, err)
	require.Equal(t, removed, again)
	require.Zero(t, refs())
	require.NoDirExists(t, dir)
}
