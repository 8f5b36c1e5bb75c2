package fusefs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A denial reaches files that are open already: their pages are dropped and
// every READ and WRITE is refused. Where the kernel serves the file itself it
// cannot be revoked, and is named.
func TestADenialReachesOpenFiles(t *testing.T) {
	for _, direct := range []bool{false, true} {
		g := newCacheable()
		v := mountView(t, func(c *Config) { c.Guard, c.NoPassthrough = g, !direct })
		write(t, v.raw("plain"), "old")
		write(t, v.raw("other"), "old")
		fd, err := unix.Open(v.in("plain"), unix.O_RDWR|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		light, err := unix.Open(v.in("other"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(light)
		buf := make([]byte, 8)
		read := func(fd int) error { _, err := unix.Pread(fd, buf, 0); return err }
		put := func() error { _, err := unix.Pwrite(fd, []byte("new"), 0); return err }
		require.NoError(t, read(fd))
		require.NoError(t, read(light))
		require.NoError(t, put())

		g.rule("plain", "-")
		v.fs.InvalidateAll()
		require.NoError(t, read(light), "what is still allowed continues")
		if direct {
			require.Equal(t, []string{"plain"}, v.fs.StillOpen())
		} else {
			require.ErrorIs(t, put(), unix.EACCES)
			require.Error(t, read(fd))
			require.Empty(t, v.fs.StillOpen())
		}
		g.rule("other", "-")
		v.fs.InvalidateAll()
		require.Error(t, read(light), "a file in the page cache, opened without a descriptor")
		require.NoError(t, put(), "allowed again")
		require.NoError(t, read(fd))
		require.Empty(t, v.fs.StillOpen())
		require.NoError(t, os.Remove(v.in("plain")))
	}
}

// A denial reaches the calls that read without READ, also where the kernel
// serves the file itself: it sends these here.
func TestADenialReachesCopyFileRangeAndSeek(t *testing.T) {
	for _, direct := range []bool{false, true} {
		g := newCacheable()
		v := mountView(t, func(c *Config) { c.Guard, c.NoPassthrough = g, !direct })
		write(t, v.raw("plain"), "content")
		write(t, v.raw("copy"), "")
		open := func(name string, flags int) int {
			fd, err := unix.Open(v.in(name), flags|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
			return fd
		}
		src, both, dst := open("plain", unix.O_RDONLY), open("plain", unix.O_RDWR), open("copy", unix.O_WRONLY)
		copied := func(from int) (int, error) {
			var in, out int64
			return unix.CopyFileRange(from, &in, dst, &out, 7, 0)
		}
		n, err := copied(src)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.NoError(t, unix.Ftruncate(dst, 0))
		_, err = unix.Seek(src, 0, unix.SEEK_DATA)
		require.NoError(t, err)

		g.rule("plain", "-")
		v.fs.InvalidateAll()
		for _, fd := range []int{src, both} {
			_, err = copied(fd)
			require.ErrorIs(t, err, unix.EACCES)
			_, err = unix.Seek(fd, 0, unix.SEEK_DATA)
			require.ErrorIs(t, err, unix.EACCES)
		}
		require.Empty(t, content(t, v.raw("copy")))
	}
}
