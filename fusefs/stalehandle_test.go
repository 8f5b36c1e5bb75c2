package fusefs

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file handle is valid while the kernel knows the inode, and stale once it has
// forgotten it, as docs/view.md has it; the path then gives a new one.
func TestAFileHandleGoesStaleWithItsInode(t *testing.T) {
	v := mountView(t)
	write(t, v.raw("file"), "content")
	mount, err := unix.Open(v.in("."), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(mount)
	take := func() unix.FileHandle {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, v.in("file"), 0)
		require.NoError(t, err)
		return h
	}
	open := func(h unix.FileHandle) error {
		fd, err := unix.OpenByHandleAt(mount, h, unix.O_RDONLY)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
	fd, err := unix.Open(v.in("file"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	h := take()
	require.NoError(t, open(h), "the inode is in use")
	require.NoError(t, unix.Close(fd))
	// Memory pressure, for all file systems of the machine: the inode goes when nobody uses it.
	require.Eventually(t, func() bool {
		require.NoError(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0o200))
		err := open(h)
		if err == nil {
			return false
		}
		require.ErrorIs(t, err, syscall.ESTALE)
		return true
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, open(take()), "the path gives a new one")
}
