package upper_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A hard link may take a name that was removed: the overlay links in its work directory first.
func TestALinkTakesARemovedName(t *testing.T) {
	s := mount(t, map[string]string{"gone": "base\n", "d/gone": "base\n", "other": "base\n", "keep": "base\n"})
	require.NoError(t, os.Remove(s.in("gone")))
	require.NoError(t, os.Remove(s.in("d/gone")))
	require.NoError(t, os.WriteFile(s.in("new"), []byte("new\n"), 0o644))
	s.g.take()
	require.NoError(t, os.Link(s.in("new"), s.in("gone")))
	require.Equal(t, []string{"link new", "create gone"}, s.g.take())
	require.Equal(t, "new\n", text(t, s.in("gone")))
	require.NoError(t, os.Link(s.in("other"), s.in("d/gone")))
	require.Subset(t, s.g.take(), []string{"open-write other", "link other", "open-write d/gone"})
	require.NoError(t, os.WriteFile(s.in("d/gone"), []byte("both\n"), 0o644))
	require.Equal(t, "both\n", text(t, s.in("other")))

	require.NoError(t, os.Remove(s.in("d/gone")))
	s.g.refuse("gone", syscall.EACCES)
	require.ErrorIs(t, os.Link(s.in("gone"), s.in("d/gone")), syscall.EACCES, "a file that the agent may not change")
	s.g.refuse("gone", 0)
	s.g.refuse("d/gone", syscall.EBUSY)
	require.ErrorIs(t, os.Link(s.in("gone"), s.in("d/gone")), syscall.EBUSY)
	require.NoFileExists(t, s.in("d/gone"))
	left, err := os.ReadDir(s.work + "/work")
	require.NoError(t, err)
	for _, e := range left {
		require.Equal(t, os.ModeDevice|os.ModeCharDevice, e.Type(), "the overlay keeps one whiteout to link: %s", e)
	}
}

// A file that was made without a name gets one by a link, and its directory is no name of it.
func TestATemporaryFileGetsAName(t *testing.T) {
	s := mount(t, map[string]string{"d/in": "base\n", "d/gone": "base\n"})
	require.NoError(t, os.Remove(s.in("d/gone")))
	for name, want := range map[string][]string{"d/new": {"tmpfile d", "link d/new"}, "d/gone": {"tmpfile d", "create d/gone"}} {
		s.g.take()
		fd, err := unix.Open(s.in("d"), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
		require.NoError(t, err)
		_, err = unix.Write(fd, []byte("mine\n"))
		require.NoError(t, err)
		require.NoError(t, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, s.in(name), unix.AT_SYMLINK_FOLLOW), name)
		require.NoError(t, unix.Close(fd))
		require.Equal(t, want, s.g.take(), name)
		require.Equal(t, "mine\n", text(t, s.in(name)))
	}
}
