package fusefs

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The whole conformance suite of go-fuse, in every way data can flow, as root
// and as an ordinary user.
func TestPosix(t *testing.T) {
	modes := map[string]func(*Config){
		"hybrid":                      func(*Config) {},
		"server only, nothing cached": func(c *Config) { c.NoPassthrough, c.NoRing, c.Timeout = true, true, -1 },
	}
	for mode, opt := range modes {
		t.Run(mode, func(t *testing.T) {
			for name, f := range suite() {
				t.Run(name, func(t *testing.T) {
					v := mountView(t, opt)
					noSkip(t)
					f(t, v.mnt)
				})
			}
			t.Run("as nobody", func(t *testing.T) {
				v := mountView(t, opt)
				openDir(t, v.in("d"), 0o777)
				openDir(t, filepath.Join(t.TempDir(), "tmp"), 0o777)
				c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestPosixAsNobody$", "-test.v")
				c.Env = append(os.Environ(), "FUSEFS_SUITE="+v.in("d"), "GORACE=atexit_sleep_ms=0")
				c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
				c.Dir = "/"
				out, err := c.CombinedOutput()
				require.NoError(t, err, "%s", out)
				require.Equal(t, len(suite()), strings.Count(string(out), "    --- PASS"), "%s", out)
			})
		})
	}
}

// TestPosixAsNobody is the part of TestPosix that another user does; by itself
// it does the same on a plain directory.
func TestPosixAsNobody(t *testing.T) {
	dir, tests := os.Getenv("FUSEFS_SUITE"), suite()
	if dir == "" {
		dir = t.TempDir()
		delete(tests, "OpenSymlinkRace") // it follows links on purpose, and a disk lets it
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			noSkip(t)
			here := filepath.Join(dir, name)
			require.NoError(t, os.Mkdir(here, 0o755))
			f(t, here)
		})
	}
}

// noSkip makes a test of the suite that skips itself fail.
func noSkip(t *testing.T) {
	t.Cleanup(func() {
		if t.Skipped() {
			t.Error("the suite skipped this")
		}
	})
}

func suite() map[string]func(*testing.T, string) {
	all := maps.Clone(posixtest.All)
	// It wants a process to be refused by its own POSIX lock, which no native
	// file system does (the suite skips it there too).
	all["FcntlFlockLocksFile"] = sameProcessLock
	all["OpenSymlinkRace"] = symlinkRace // the suite's takes ESTALE for a fault
	delete(all, "XAttrLarge")            // below, on a file system that has the room
	return all
}

func TestPosixLargeXattrs(t *testing.T) {
	needFUSE(t)
	back := t.TempDir()
	require.NoError(t, unix.Mount("polis-test", back, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""))
	t.Cleanup(func() { // the kernel lets the files go a moment after the view
		require.Eventually(t, func() bool { return unix.Unmount(back, 0) == nil }, 30*time.Second, time.Millisecond)
	})
	root, err := unix.Open(back, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	v := mountView(t, func(c *Config) { c.Roots = []int{root} })
	unix.Close(root)
	noSkip(t)
	posixtest.XAttrLarge(t, v.mnt)
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
