package fusefs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// site is a directory, in a view or not, and two processes that work there.
type site struct {
	*testing.T
	dir    string
	a, b   *worker
	native bool
}

func (s *site) at(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *site) ok(w *worker, c call) string {
	s.Helper()
	c.Root = s.dir
	return w.must(s, c)
}

func (s *site) get(w *worker, c call) string {
	s.Helper()
	c.Root = s.dir
	return w.do(s, c).Text
}

// expectations are what programs take for granted. Each is tried on a plain
// directory first, so that it is the file system's promise and not ours.
var expectations = map[string]func(*site){
	"hard links are one file":                        hardLinks,
	"symbolic links":                                 symbolicLinks,
	"a FIFO between processes":                       fifo,
	"a socket between processes":                     socket,
	"user attributes":                                userAttributes,
	"space is reserved, punched and zeroed":          space,
	"holes are found":                                holes,
	"copy_file_range":                                copiedRange,
	"a birth time that stays":                        birth,
	"times to the nanosecond, before 1970 too":       setTimes,
	"locks between mount name spaces":                locks,
	"a file without a name gets one":                 namelessFiles,
	"rename flags":                                   renameFlags,
	"ten thousand entries are removed while read":    sweepMany,
	"files beyond 4 GiB":                             hugeFile,
	"names of 255 bytes, and of any bytes":           anyNames,
	"the sticky bit":                                 sticky,
	"unlinked files live on":                         unlinked,
	"inotify":                                        watched,
	"O_DIRECT":                                       directIO,
	"O_APPEND of several processes loses nothing":    appends,
	"a running program is not written":               textBusy,
	"a mapping shared by two processes":              sharedMapping,
	"descriptors of different rights see one file":   rights,
	"a change of owner to the same owner is counted": sameOwner,
	"set-id bits go when a writer had the file open": setIDWhileOpen,
}

func TestWhatProgramsExpect(t *testing.T) {
	needFUSE(t)
	for where, opt := range map[string]func(*Config){
		"natively":                    nil,
		"hybrid":                      func(*Config) {},
		"hybrid, from the device":     func(c *Config) { c.NoRing = true },
		"server only":                 func(c *Config) { c.NoPassthrough = true },
		"server only, nothing cached": func(c *Config) { c.NoPassthrough, c.Timeout = true, -1 },
	} {
		t.Run(where, func(t *testing.T) {
			base := ""
			if opt == nil {
				base = t.TempDir()
			} else {
				base = mountView(t, opt).mnt
			}
			for p := base; p != "/tmp" && p != "/"; p = filepath.Dir(p) {
				require.NoError(t, os.Chmod(p, 0o755))
			}
			a, b := startWorker(t, user{umask: 0o022}), startWorker(t, user{umask: 0o022})
			for name, f := range expectations {
				t.Run(name, func(t *testing.T) {
					s := &site{T: t, dir: filepath.Join(base, strings.ReplaceAll(name, " ", "-")), a: a, b: b, native: opt == nil}
					require.NoError(t, os.Mkdir(s.dir, 0o755))
					f(s)
					for _, w := range []*worker{a, b} {
						w.do(t, call{Op: "end", Root: s.dir})
					}
				})
			}
		})
	}
}

func hardLinks(s *site) {
	write(s, s.at("a"), "text")
	require.NoError(s, os.Link(s.at("a"), s.at("b")))
	a, b := lstat(s, s.at("a")), lstat(s, s.at("b"))
	require.Equal(s, a.Ino, b.Ino)
	require.EqualValues(s, 2, a.Nlink)
	write(s, s.at("b"), "other")
	require.Equal(s, "other", content(s, s.at("a")))
	require.NoError(s, rename2(s.at("a"), s.at("b"), 0), "two names of one file: nothing is done")
	require.EqualValues(s, 2, lstat(s, s.at("a")).Nlink)
	require.NoError(s, os.Remove(s.at("a")))
	require.EqualValues(s, 1, lstat(s, s.at("b")).Nlink)
	require.Equal(s, "other", content(s, s.at("b")))
	require.ErrorIs(s, os.Link(s.dir, s.at("c")), syscall.EPERM)
}

func symbolicLinks(s *site) {
	write(s, s.at("f"), "text")
	require.NoError(s, os.Symlink("f", s.at("rel")))
	require.NoError(s, os.Symlink(s.at("f"), s.at("abs")))
	require.NoError(s, os.Symlink("nowhere", s.at("dangling")))
	require.NoError(s, os.Symlink("loop", s.at("loop")))
	longText := strings.Repeat("t", 4095)
	require.NoError(s, os.Symlink(longText, s.at("longest")))
	require.Equal(s, "text", content(s, s.at("rel")))
	require.Equal(s, "text", content(s, s.at("abs")))
	_, err := os.Stat(s.at("dangling"))
	require.ErrorIs(s, err, syscall.ENOENT)
	_, err = os.Stat(s.at("loop"))
	require.ErrorIs(s, err, syscall.ELOOP)
	got, err := os.Readlink(s.at("longest"))
	require.NoError(s, err)
	require.Equal(s, longText, got)
	require.EqualValues(s, 4095, lstat(s, s.at("longest")).Size)
	write(s, s.at("dangling"), "made") // creates what it points to
	require.Equal(s, "made", content(s, s.at("nowhere")))
	require.ErrorIs(s, openClose(s.at("rel"), unix.O_RDONLY|unix.O_NOFOLLOW, 0), syscall.ELOOP)
}

func fifo(s *site) {
	require.NoError(s, unix.Mkfifo(s.at("p"), 0o644))
	s.ok(s.a, call{Op: "open", P: "p", Flags: unix.O_RDWR})
	s.ok(s.b, call{Op: "open", P: "p", Flags: unix.O_RDONLY})
	require.Equal(s, "5ok", s.get(s.a, call{Op: "write", Len: 5}))
	require.Contains(s, s.get(s.b, call{Op: "readsome", Len: 5}), "5ok")
	require.EqualValues(s, unix.S_IFIFO, lstat(s, s.at("p")).Mode&unix.S_IFMT)
}

func socket(s *site) {
	s.ok(s.a, call{Op: "listen", P: "s"})
	s.ok(s.b, call{Op: "dial", P: "s"})
	require.EqualValues(s, unix.S_IFSOCK, lstat(s, s.at("s")).Mode&unix.S_IFMT)
	require.NoError(s, os.Remove(s.at("s")))
	require.Equal(s, "ENOENT", s.get(s.b, call{Op: "dial", P: "s"}))
}

func userAttributes(s *site) {
	write(s, s.at("f"), "")
	big := bytes.Repeat([]byte("v"), 3000)
	require.NoError(s, unix.Setxattr(s.at("f"), "user.empty", nil, 0))
	require.NoError(s, unix.Setxattr(s.at("f"), "user.big", big, unix.XATTR_CREATE))
	require.ErrorIs(s, unix.Setxattr(s.at("f"), "user.big", big, unix.XATTR_CREATE), syscall.EEXIST)
	require.ErrorIs(s, unix.Setxattr(s.at("f"), "user.none", big, unix.XATTR_REPLACE), syscall.ENODATA)
	b := make([]byte, 4000)
	n, err := unix.Getxattr(s.at("f"), "user.big", b)
	require.NoError(s, err)
	require.Equal(s, big, b[:n])
	n, err = unix.Getxattr(s.at("f"), "user.empty", b)
	require.NoError(s, err)
	require.Zero(s, n)
	require.NoError(s, unix.Removexattr(s.at("f"), "user.big"))
	_, err = unix.Getxattr(s.at("f"), "user.big", b)
	require.ErrorIs(s, err, syscall.ENODATA)
	n, err = unix.Listxattr(s.at("f"), b)
	require.NoError(s, err)
	require.Equal(s, "user.empty\x00", string(b[:n]))
	require.NoError(s, unix.Mkfifo(s.at("p"), 0o600))
	require.ErrorIs(s, unix.Setxattr(s.at("p"), "user.x", nil, 0), syscall.EPERM)
}

func setTimes(s *site) {
	write(s, s.at("f"), "")
	set := func(a, m unix.Timespec) unix.Stat_t {
		require.NoError(s, unix.UtimesNanoAt(unix.AT_FDCWD, s.at("f"), []unix.Timespec{a, m}, 0))
		return lstat(s, s.at("f"))
	}
	st := set(unix.Timespec{Sec: 1, Nsec: 999999999}, unix.Timespec{Sec: 1 << 33, Nsec: 1})
	require.Equal(s, unix.Timespec{Sec: 1, Nsec: 999999999}, st.Atim)
	require.Equal(s, unix.Timespec{Sec: 1 << 33, Nsec: 1}, st.Mtim)
	st = set(unix.Timespec{Nsec: unix.UTIME_OMIT}, unix.Timespec{Sec: -86400, Nsec: 5})
	require.Equal(s, unix.Timespec{Sec: 1, Nsec: 999999999}, st.Atim)
	require.Equal(s, unix.Timespec{Sec: -86400, Nsec: 5}, st.Mtim)
	before := st.Ctim
	st = set(unix.Timespec{Nsec: unix.UTIME_NOW}, unix.Timespec{Nsec: unix.UTIME_OMIT})
	require.InDelta(s, time.Now().Unix(), st.Atim.Sec, 60)
	require.Equal(s, int64(-86400), st.Mtim.Sec)
	require.NotEqual(s, before, st.Ctim)
}

func birth(s *site) {
	born := func() unix.StatxTimestamp {
		var st unix.Statx_t
		require.NoError(s, unix.Statx(unix.AT_FDCWD, s.at("f"), 0, unix.STATX_BTIME, &st))
		require.NotZero(s, st.Mask&unix.STATX_BTIME)
		return st.Btime
	}
	write(s, s.at("f"), "")
	first := born()
	require.InDelta(s, time.Now().Unix(), first.Sec, 60)
	write(s, s.at("f"), "more")
	require.NoError(s, os.Chtimes(s.at("f"), time.Unix(1, 0), time.Unix(1, 0)))
	require.Equal(s, first, born())
}

func renameFlags(s *site) {
	write(s, s.at("a"), "a")
	require.NoError(s, os.Mkdir(s.at("d"), 0o755))
	write(s, s.at("d/in"), "in")
	require.ErrorIs(s, rename2(s.at("a"), s.at("d"), unix.RENAME_NOREPLACE), syscall.EEXIST)
	require.NoError(s, rename2(s.at("a"), s.at("b"), unix.RENAME_NOREPLACE))
	require.NoError(s, rename2(s.at("b"), s.at("d"), unix.RENAME_EXCHANGE))
	require.Equal(s, "a", content(s, s.at("d")))
	require.Equal(s, "in", content(s, s.at("b/in")))
	require.ErrorIs(s, rename2(s.at("b"), s.at("none"), unix.RENAME_EXCHANGE), syscall.ENOENT)
	require.ErrorIs(s, rename2(s.at("b"), s.at("b/x"), 0), syscall.EINVAL)
	require.ErrorIs(s, rename2(s.at("b"), s.at("c"), unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE), syscall.EINVAL)
	require.ErrorIs(s, rename2(s.at("d"), s.at("b"), 0), syscall.EISDIR)
	require.ErrorIs(s, rename2(s.at("b"), s.at("d"), 0), syscall.ENOTDIR)
}

func anyNames(s *site) {
	for _, name := range []string{long, notUTF8, "new\nline", " ", "\\", "-rf", "\x7f\x1b[0m", strings.Repeat("é", 127)} {
		write(s, s.at(name), name)
		require.Equal(s, name, content(s, s.at(name)))
		require.NoError(s, os.Rename(s.at(name), s.at("t")))
		require.NoError(s, os.Rename(s.at("t"), s.at(name)))
		es, err := os.ReadDir(s.dir)
		require.NoError(s, err)
		require.Len(s, es, 1)
		require.Equal(s, name, es[0].Name())
		require.NoError(s, os.Remove(s.at(name)))
	}
	require.ErrorIs(s, openClose(s.at(tooLong), unix.O_CREAT|unix.O_RDWR, 0o600), syscall.ENAMETOOLONG)
	require.ErrorIs(s, os.Mkdir(s.at(tooLong), 0o700), syscall.ENAMETOOLONG)
	_, err := os.Lstat(s.at(tooLong))
	require.ErrorIs(s, err, syscall.ENAMETOOLONG)
}

func sticky(s *site) {
	require.NoError(s, os.Mkdir(s.at("t"), 0o700))
	require.NoError(s, unix.Chmod(s.at("t"), 0o1777))
	one, two := startWorker(s.T, crew[2]), startWorker(s.T, crew[3])
	s.ok(one, call{Op: "mknod", P: "t/mine", Mode: 0o666})
	require.Equal(s, "EPERM", s.get(two, call{Op: "unlink", P: "t/mine"}))
	require.Equal(s, "EPERM", s.get(two, call{Op: "rename", P: "t/mine", Q: "t/theirs"}))
	s.ok(two, call{Op: "mknod", P: "t/theirs", Mode: 0o666})
	require.Equal(s, "EPERM", s.get(two, call{Op: "rename", P: "t/theirs", Q: "t/mine"}))
	s.ok(one, call{Op: "unlink", P: "t/mine"})
	s.ok(s.a, call{Op: "unlink", P: "t/theirs"})
}

func sweepMany(s *site) {
	const entries = 10000
	require.NoError(s, os.Mkdir(s.at("d"), 0o755))
	for i := range entries {
		fd, err := unix.Open(s.at("d", "entry-"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+time.Duration(i).String()), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		require.NoError(s, err)
		unix.Close(fd)
	}
	text := s.ok(s.a, call{Op: "sweep", P: "d", Len: 8192})
	require.Equal(s, entries, strings.Count(text, " ok")+strings.Count(text, "ENOENT"))
	require.NotContains(s, text, "ENOENT", "no entry is shown twice")
	require.NoError(s, os.Remove(s.at("d")), "nothing was left out")
}
