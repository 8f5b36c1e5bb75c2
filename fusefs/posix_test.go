package fusefs

import (
	"os"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"github.com/stretchr/testify/require"
)

// The whole conformance suite of go-fuse, in every way data can flow.
func TestPosix(t *testing.T) {
	modes := map[string]func(*Config){
		"hybrid":                      func(*Config) {},
		"server only, nothing cached": func(c *Config) { c.NoPassthrough, c.Timeout = true, -1 },
	}
	for mode, opt := range modes {
		t.Run(mode, func(t *testing.T) {
			for name, f := range posixtest.All {
				if name == "FcntlFlockLocksFile" {
					// It wants a process to be refused by its own POSIX lock, which
					// no native file system does (the suite skips it there too).
					f = sameProcessLock
				}
				t.Run(name, func(t *testing.T) {
					v := mountView(t, opt)
					f(t, v.mnt)
				})
			}
		})
	}
}

// sameProcessLock checks that a process's POSIX locks behave as they do natively.
func sameProcessLock(t *testing.T, mnt string) {
	try := func(dir string) error {
		f1, err := os.Create(dir + "/lock")
		require.NoError(t, err)
		defer f1.Close()
		require.NoError(t, syscall.FcntlFlock(f1.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}))
		f2, err := os.OpenFile(dir+"/lock", os.O_RDWR, 0)
		require.NoError(t, err)
		defer f2.Close()
		return syscall.FcntlFlock(f2.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_RDLCK})
	}
	require.Equal(t, try(t.TempDir()), try(mnt))
}

func TestAViewShowsAndChangesTheBackingDirectory(t *testing.T) {
	v := mountView(t)
	write(t, v.raw("a"), "one")
	require.Equal(t, "one", content(t, v.in("a")))
	write(t, v.in("b"), "two")
	require.Equal(t, "two", content(t, v.raw("b")))
	require.NoError(t, os.Mkdir(v.in("d"), 0o750))
	require.NoError(t, os.Rename(v.in("b"), v.in("d/c")))
	require.Equal(t, "two", content(t, v.raw("d/c")))
	require.NoError(t, os.RemoveAll(v.in("d")))
	require.NoDirExists(t, v.raw("d"))
}
