package fusefs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A denial reaches files that are open already: their pages are dropped and
// every READ and WRITE is refused. Where the kernel serves the file itself it
// cannot be taken back, and is named.
func TestADenialReachesOpenFiles(t *testing.T) {
	for _, direct := range []bool{false, true} {
		g := newSteady()
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
		require.NoError(t, read(light), "what is still allowed goes on")
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
