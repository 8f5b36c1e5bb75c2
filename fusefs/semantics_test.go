package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

const nobody = 65534

func lstat(t testing.TB, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st), path)
	return st
}

// openDir makes a directory that every user can reach and use.
func openDir(t testing.TB, path string, mode uint32) {
	t.Helper()
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, unix.Chmod(path, mode))
	for p := filepath.Dir(path); p != "/" && strings.HasPrefix(p, os.TempDir()+"/"); p = filepath.Dir(p) {
		fi, err := os.Stat(p)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(p, fi.Mode()|0o055))
	}
}

// What a user makes belongs to the user, with the mode of the call: exactly as natively,
// whatever the server's own umask is.
func TestCallersOwnWhatTheyMake(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	v := mountView(t)
	for name, mode := range map[string]uint32{"plain": 0o777, "setgid": 0o2777, "sticky": 0o1777} {
		t.Run(name, func(t *testing.T) {
			native := filepath.Join(t.TempDir(), name)
			openDir(t, native, mode)
			openDir(t, v.in(name), mode)
			for _, d := range []string{native, v.in(name)} {
				require.NoError(t, os.Chown(d, 1234, 4321))
				require.NoError(t, unix.Chmod(d, mode))
				require.NoError(t, as(t, nobody, nobody, "make", d))
			}
			for _, f := range []string{"file", "strict", "dir", "fifo", "sock", "link", "linked"} {
				want, got, back := lstat(t, filepath.Join(native, f)), lstat(t, v.in(name, f)), lstat(t, v.raw(name, f))
				require.Equal(t, want.Mode, got.Mode, "%s: %o %o", f, want.Mode, got.Mode)
				require.Equal(t, [2]uint32{want.Uid, want.Gid}, [2]uint32{got.Uid, got.Gid}, f)
				require.Equal(t, [3]uint32{got.Mode, got.Uid, got.Gid}, [3]uint32{back.Mode, back.Uid, back.Gid}, f)
			}
		})
	}
}

func TestPermissionsHoldForOtherUsers(t *testing.T) {
	v := mountView(t)
	openDir(t, v.in("d"), 0o755)
	write(t, v.in("d/secret"), "x")
	require.NoError(t, os.Chmod(v.in("d/secret"), 0o600))
	write(t, v.in("d/ro"), "x")
	require.NoError(t, as(t, nobody, nobody, "read", v.in("d/ro")))
	require.Error(t, as(t, nobody, nobody, "read", v.in("d/secret")))
	require.Error(t, as(t, nobody, nobody, "append", v.in("d/ro")))
	require.Error(t, as(t, nobody, nobody, "chmod", v.in("d/ro"), "777"))
	require.Error(t, as(t, nobody, nobody, "make", v.in("d")))
	require.Equal(t, "x", content(t, v.raw("d/ro")))
}

// A set-id program does not keep its rights when an ordinary user changes it.
func TestSetIDBitsGoWhenContentChanges(t *testing.T) {
	for _, opt := range []func(*Config){func(*Config) {}, func(c *Config) { c.NoPassthrough = true }} {
		v := mountView(t, opt)
		openDir(t, v.in("d"), 0o777)
		native := filepath.Join(t.TempDir(), "d")
		openDir(t, native, 0o777)
		for _, verb := range []string{"append", "truncate", "overwrite"} {
			var names []string
			modes := []uint32{0o6777, 0o4777, 0o2777, 0o2767, 0o1777}
			for _, mode := range modes {
				for _, d := range []string{native, v.in("d")} {
					f := fmt.Sprintf("%s/%s%o", d, verb, mode)
					write(t, f, "program")
					require.NoError(t, unix.Chmod(f, mode))
					names = append(names, f)
				}
			}
			require.NoError(t, as(t, nobody, nobody, verb, names...))
			for i := range modes {
				want, got := lstat(t, names[2*i]), lstat(t, names[2*i+1])
				require.Equal(t, want.Mode, got.Mode, "%s: want %o got %o", names[2*i+1], want.Mode, got.Mode)
				require.Equal(t, want.Size, got.Size)
			}
		}
		f := v.in("d/owned")
		write(t, f, "")
		require.NoError(t, unix.Chmod(f, 0o6755))
		require.Equal(t, uint32(0o6755), lstat(t, f).Mode&0o7777, "mode bits are kept as asked")
		require.NoError(t, unix.Chown(f, 1, 1))
		require.Equal(t, uint32(0o755), lstat(t, f).Mode&0o7777)
	}
}

func TestLocksHoldBetweenProcesses(t *testing.T) {
	v := mountView(t)
	write(t, v.in("f"), "")
	for _, kind := range []string{"flock", "fcntl"} {
		f, err := os.OpenFile(v.in("f"), os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, helper(t, "lock", kind, v.in("f")).Run())
		if kind == "flock" {
			require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
		} else {
			require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
		}
		c := helper(t, "lock", kind, v.in("f"))
		c.Stderr = nil
		require.Error(t, c.Run(), kind)
		require.NoError(t, f.Close())
		require.NoError(t, helper(t, "lock", kind, v.in("f")).Run(), "closing gives the lock back")
	}
}

func TestUnlinkedFilesLiveAsLongAsTheyAreOpen(t *testing.T) {
	for name, opt := range map[string]func(*Config){"hybrid": func(*Config) {}, "server only": func(c *Config) { c.NoPassthrough = true }} {
		t.Run(name, func(t *testing.T) {
			v := mountView(t, opt)
			write(t, v.in("f"), "hello")
			write(t, v.in("over"), "over")
			f, err := os.OpenFile(v.in("f"), os.O_RDWR, 0)
			require.NoError(t, err)
			defer f.Close()
			r, err := os.Open(v.in("over"))
			require.NoError(t, err)
			defer r.Close()
			p, err := unix.Open(v.in("f"), unix.O_PATH|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			require.NoError(t, os.Rename(v.in("f"), v.in("over")))
			require.NoError(t, os.Remove(v.in("over")))
			for _, fd := range []int{int(f.Fd()), p, int(r.Fd())} {
				var st unix.Stat_t
				require.NoError(t, unix.Fstat(fd, &st))
				require.Zero(t, st.Nlink)
			}
			_, err = f.WriteAt([]byte("HE"), 0)
			require.NoError(t, err)
			require.NoError(t, f.Truncate(4))
			require.NoError(t, f.Chmod(0o600))
			require.NoError(t, f.Sync())
			require.Equal(t, "HEll", content(t, backing.ProcPath(p)), "still available by descriptor")
			b := make([]byte, 9)
			n, err := r.ReadAt(b, 0)
			require.Equal(t, "over", string(b[:n]), "%v", err)
			require.ErrorIs(t, unix.Linkat(p, "", unix.AT_FDCWD, v.in("back"), unix.AT_EMPTY_PATH), syscall.ENOENT)
			unix.Close(p)

			// The number may be used again at once; it is another file.
			write(t, v.in("f"), "new")
			require.Equal(t, "new", content(t, v.in("f")))
			require.NoError(t, f.Chmod(0o640))
			require.Equal(t, os.FileMode(0o644), modeOf(t, v.raw("f")))
		})
	}
}

func TestARemovedWorkingDirectoryIsStillThere(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.Mkdir(v.in("d"), 0o755))
	d, err := os.Open(v.in("d"))
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, os.Remove(v.in("d")))
	fi, err := d.Stat()
	require.NoError(t, err)
	require.True(t, fi.IsDir())
	require.ErrorIs(t, unix.Mkdirat(int(d.Fd()), "x", 0o700), syscall.ENOENT)
	_, err = d.Readdirnames(-1)
	require.ErrorIs(t, err, syscall.ENOENT, "as natively")
}

func TestLinkCountsAndTimesAreExact(t *testing.T) {
	v := mountView(t)
	write(t, v.in("a"), "x")
	same := func(msg string, names ...string) {
		for _, n := range names {
			got, want := lstat(t, v.in(n)), lstat(t, v.raw(n))
			require.Equal(t, want.Nlink, got.Nlink, msg)
			require.Equal(t, want.Ctim, got.Ctim, msg)
			require.Equal(t, want.Mtim, got.Mtim, msg)
			require.Equal(t, want.Ino, got.Ino, msg)
		}
	}
	same("created", "a")
	require.NoError(t, os.Link(v.in("a"), v.in("b")))
	same("linked", "a", "b")
	require.NoError(t, os.Rename(v.in("b"), v.in("c")))
	same("renamed", "a", "c")
	require.NoError(t, os.Remove(v.in("a")))
	same("unlinked", "c")
	require.NoError(t, os.Mkdir(v.in("d"), 0o755))
	require.NoError(t, os.Mkdir(v.in("d/e"), 0o755))
	require.NoError(t, os.Rename(v.in("c"), v.in("d/c")))
	same("moved", "d", "d/c", "d/e", ".")
	require.NoError(t, os.WriteFile(v.in("d/c"), []byte("longer"), 0))
	same("written", "d/c")
	require.NoError(t, rename2(v.in("d/c"), v.in("d/e"), unix.RENAME_EXCHANGE))
	same("exchanged", "d", "d/c", "d/e")
	require.NoError(t, os.Remove(v.in("d/c")))
	same("removed", "d", "d/e", ".")
}

// store writes to a mapping of a file that this process itself serves. The
// page must be there before: a plain store that faults blocks its thread outside of
// a system call, the collector waits for it, and nobody is left to serve the page.
func store(t *testing.T, m []byte, off int, b byte) {
	t.Helper()
	require.NoError(t, unix.Madvise(m, unix.MADV_POPULATE_WRITE))
	m[off] = b
}

// Stores through a mapping pass by FUSE; the times must not stay stale.
func TestMappedStoresAreSeenInTheTimes(t *testing.T) {
	for name, opt := range map[string]func(*Config){"hybrid": func(*Config) {}, "server only": func(c *Config) { c.NoPassthrough = true }} {
		t.Run(name, func(t *testing.T) {
			v := mountView(t, opt)
			write(t, v.in("f"), strings.Repeat("x", 8192))
			require.Eventually(t, func() bool { return v.g.tickets() == 0 }, 30*time.Second, time.Millisecond)
			before := lstat(t, v.in("f")) // cached now, for an hour
			f, err := os.OpenFile(v.in("f"), os.O_RDWR, 0)
			require.NoError(t, err)
			m, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond)
			store(t, m, 5000, 'y')
			require.NoError(t, unix.Msync(m, unix.MS_SYNC))
			require.Equal(t, lstat(t, v.raw("f")).Mtim, lstat(t, v.in("f")).Mtim, "while open")
			require.NotEqual(t, before.Mtim, lstat(t, v.in("f")).Mtim)
			time.Sleep(20 * time.Millisecond)
			store(t, m, 1, 'z')
			require.NoError(t, unix.Msync(m, unix.MS_SYNC))
			require.NoError(t, unix.Munmap(m))
			require.NoError(t, f.Close())
			require.Eventually(t, func() bool { return lstat(t, v.raw("f")).Mtim == lstat(t, v.in("f")).Mtim },
				5*time.Second, time.Millisecond, "after close")
			require.Equal(t, content(t, v.raw("f")), content(t, v.in("f")))
		})
	}
}

func TestXattrs(t *testing.T) {
	v := mountView(t)
	v.g.xattr = map[string]string{"user.polis.lease": "claude"}
	write(t, v.in("f"), "")
	require.NoError(t, unix.Setxattr(v.in("f"), "user.mine", []byte("1"), unix.XATTR_CREATE))
	require.ErrorIs(t, unix.Setxattr(v.in("f"), "user.mine", []byte("1"), unix.XATTR_CREATE), syscall.EEXIST)
	require.NoError(t, unix.Setxattr(v.raw("f"), "trusted.other", []byte("1"), 0))
	b := make([]byte, 99)
	n, err := unix.Getxattr(v.in("f"), "user.polis.lease", b)
	require.NoError(t, err)
	require.Equal(t, "claude", string(b[:n]))
	n, err = unix.Getxattr(v.in("f"), "user.polis.lease", nil)
	require.NoError(t, err)
	require.Equal(t, 6, n)
	_, err = unix.Getxattr(v.in("f"), "user.polis.lease", b[:2])
	require.ErrorIs(t, err, syscall.ERANGE)
	_, err = unix.Getxattr(v.in("f"), "user.polis.other", b)
	require.ErrorIs(t, err, syscall.ENODATA)
	_, err = unix.Getxattr(v.in("f"), "trusted.other", b)
	require.ErrorIs(t, err, syscall.ENODATA)
	n, err = unix.Listxattr(v.in("f"), b)
	require.NoError(t, err)
	require.Equal(t, "user.mine\x00", string(b[:n]))
	n, err = unix.Listxattr(v.in("f"), nil)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	_, err = unix.Listxattr(v.in("f"), b[:3])
	require.ErrorIs(t, err, syscall.ERANGE)
	require.NoError(t, os.Symlink("nowhere", v.in("l")))
	n, err = unix.Llistxattr(v.in("l"), b)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestPathsLongerThanThePathLimit(t *testing.T) {
	v := mountView(t, func(c *Config) { c.DirDescriptors = 4 })
	name := strings.Repeat("d", 200)
	dir, err := unix.Open(v.mnt, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range 40 { // 8000 bytes
		require.NoError(t, unix.Mkdirat(dir, name, 0o755))
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		unix.Close(dir)
		dir = next
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, "f", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	_, err = unix.Write(fd, []byte("deep"))
	require.NoError(t, err)
	unix.Close(fd)
	require.NoError(t, unix.Renameat(dir, "f", dir, "g"))
	require.NoError(t, unix.Fchmodat(dir, "g", 0o640, 0))
	var st unix.Stat_t
	require.NoError(t, unix.Fstatat(dir, "g", &st, 0))
	require.EqualValues(t, 4, st.Size)
	require.NoError(t, os.RemoveAll(v.in(name)))
	require.NoDirExists(t, v.raw(name))
}
