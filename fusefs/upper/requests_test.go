package upper_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
)

// asks are the requests of the view while do runs, without those that nobody waits for.
func (s *stack) asks(t testing.TB, do func()) (sum uint64, by map[string]uint64) {
	t.Helper()
	before := s.fs.Requests()
	do()
	by = map[string]uint64{}
	for name, n := range s.fs.Requests() {
		if n -= before[name]; n > 0 {
			by[name] = n
		}
	}
	// Programs outside, such as df, ask each mount for its STATFS.
	for _, name := range []string{"FORGET", "BATCH_FORGET", "RELEASE", "STATFS"} {
		delete(by, name)
	}
	for n := range maps.Values(by) {
		sum += n
	}
	return sum, by
}

// What is read again costs no request, also in directories that the agent has changed. (A directory's
// attributes and list are read once after a change in it.)
func TestReadingAgainReachesNoView(t *testing.T) {
	files := map[string]string{}
	for i := range 30 {
		for k := range 5 {
			files[fmt.Sprintf("d%d/sub/f%d", i, k)] = "base\n"
		}
	}
	s := mount(t, files)
	for i := range 10 {
		require.NoError(t, os.WriteFile(s.in(fmt.Sprintf("d%d/sub/f0", i)), []byte("mine\n"), 0o644))
		require.NoError(t, os.Remove(s.in(fmt.Sprintf("d%d/sub/f1", i))))
		require.NoError(t, os.WriteFile(s.in(fmt.Sprintf("d%d/new", i)), nil, 0o644))
	}
	stat := func() {
		for name := range files {
			_, _ = os.Lstat(s.in(name)) //nolint:errcheck // some were removed
			_, err := os.Lstat(s.in(name + ".missing"))
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
	walk := func() {
		require.NoError(t, exec.CommandContext(t.Context(), "find", s.at, "-name", "no-such-name").Run())
	}
	read := func() {
		for name := range files {
			if fd, err := unix.Open(s.in(name), unix.O_RDONLY, 0); err == nil {
				unix.Close(fd)
			}
		}
	}
	for range 3 {
		stat()
		walk()
	}
	sum, by := s.asks(t, stat)
	require.Zero(t, sum, "stat: %v", by)
	sum, by = s.asks(t, walk)
	require.LessOrEqual(t, sum, uint64(1), "find: %v", by) // STATFS, by the program itself
	sum, by = s.asks(t, read)
	require.LessOrEqual(t, sum, uint64(10), "open: one for each file of the agent's own: %v", by)
}

// The requests of a change. Each costs the caller two context switches.
func TestAChangeNeedsFewRequests(t *testing.T) {
	s := mount(t, map[string]string{"d/a": "base\n", "d/b": "base\n", "d/c": "base\n", "d/e": "base\n", "d/g": "base\n", "x/y/z": "base\n"})
	change := func(name string) func() {
		return func() {
			f, err := os.OpenFile(s.in(name), os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.WriteString("mine\n")
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	create := func(name string) func() {
		return func() {
			f, err := os.Create(s.in(name))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	remove := func(name string) func() { return func() { require.NoError(t, os.Remove(s.in(name))) } }
	for _, c := range []struct {
		name string
		most uint64
		do   func()
	}{
		{"first change, and the first in its two directories", 38, change("x/y/z")},
		{"first change in a directory", 26, change("d/a")},
		{"first change of another file there", 16, change("d/b")},
		{"next change of it", 1, change("d/b")},
		{"create", 5, create("d/new")},
		{"create another", 5, create("d/new2")},
		{"unlink it", 1, remove("d/new2")},
		{"first unlink of a file of the base", 8, remove("d/c")},
		{"unlink of another one", 5, remove("d/e")},
		{"chmod, a first change", 14, func() { require.NoError(t, os.Chmod(s.in("d/g"), 0o600)) }},
	} {
		sum, by := s.asks(t, c.do)
		require.LessOrEqual(t, sum, c.most, "%s: %v", c.name, by)
		syncs := uint64(0)
		if strings.Contains(c.name, "first change") {
			syncs = 1 // of the copy; it is answered without waiting for the disk: see TestCopiesAreWrittenSoon
		}
		require.LessOrEqual(t, by["FSYNC"]+by["FSYNCDIR"]+by["SYNCFS"], syncs, "%s: %v", c.name, by)
		if c.name != "chmod, a first change" {
			require.NotContains(t, by, "GETATTR", "%s: the kernel checks no modes in the view: %v", c.name, by)
		}
		t.Log(c.name, sum, by)
	}
}

// A mount point that others could reach is refused: the kernel checks no modes in such a view.
func TestAReachableMountPointIsRefused(t *testing.T) {
	s := mount(t, nil)
	dir := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "view"), 0o755))
	root, err := os.Open(s.upper)
	require.NoError(t, err)
	defer root.Close()
	work, err := os.Open(s.work)
	require.NoError(t, err)
	defer work.Close()
	fs, err := fusefs.New(fusefs.Config{Roots: []int{int(root.Fd())}, Work: int(work.Fd()), Guard: s.g, Mountpoint: filepath.Join(dir, "view")})
	require.NoError(t, err)
	defer fs.Close()
	for _, mode := range []os.FileMode{0o755, 0o750, 0o701} {
		require.NoError(t, os.Chmod(dir, mode))
		require.ErrorIs(t, fs.Mount(t.Context()), fusefs.ErrConfig, mode)
	}
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Chown(dir, 65534, 0))
	require.ErrorIs(t, fs.Mount(t.Context()), fusefs.ErrConfig)
}

// allocated reports whether the blocks of a file are chosen, which ext4 and xfs do when they begin to
// write it (fiemap, in Documentation/filesystems of the kernel).
func allocated(t *testing.T, path string) bool {
	t.Helper()
	type extent struct {
		logical, physical, length uint64
		_                         [2]uint64
		flags                     uint32
		_                         [3]uint32
	}
	m := struct {
		start, length        uint64
		flags, mapped, count uint32
		_                    uint32
		extents              [4]extent
	}{length: ^uint64(0), count: 4}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	const fiemap, delayed = 0xC020660B, 0x4
	_, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fiemap, uintptr(unsafe.Pointer(&m)))
	if e == unix.EOPNOTSUPP {
		t.Skip("the file system does not list its blocks")
	}
	require.Zero(t, e)
	return m.mapped > 0 && m.extents[0].flags&delayed == 0
}

// Copies are written to the disk without the caller waiting for it: soon, and many at once.
func TestCopiesAreWrittenSoon(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("f%d", i)] = "base\n"
	}
	s := mount(t, files)
	for name := range files {
		require.NoError(t, os.Chmod(s.in(name), 0o600))
	}
	require.Eventually(t, func() bool {
		for name := range files {
			if !allocated(t, filepath.Join(s.upper, name)) {
				return false
			}
		}
		return true
	}, 20*time.Second, 50*time.Millisecond, "the kernel itself would begin after 30 seconds")
}

// The overlay checks the caller's rights: the view below it does not.
func TestTheOverlayChecksTheCallersRights(t *testing.T) {
	s := mount(t, map[string]string{"theirs": "base\n", "mine": "base\n", "d/in": "base\n", "secret": "base\n"})
	const nobody = 65534
	require.NoError(t, os.Chown(s.in("mine"), nobody, nobody))
	require.NoError(t, os.Chmod(s.in("secret"), 0o600))
	require.NoError(t, os.WriteFile(s.in("made"), []byte("root's\n"), 0o644))
	require.NoError(t, os.Mkdir(s.in("own"), 0o755))
	require.NoError(t, os.Chown(s.in("own"), nobody, nobody))
	top, err := os.Open(s.at)
	require.NoError(t, err)
	defer top.Close()
	run := func(script string) error {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir, cmd.ExtraFiles = "/", []*os.File{top}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd.Run()
	}
	for _, script := range []string{
		"echo x >> theirs", "echo x >> made", "cat secret", "rm theirs", "rm d/in", "touch new", "mkdir new", "mv mine other", "chmod 666 theirs", "ln -s x new", "echo x >> d/in", "chmod 4755 made",
	} {
		require.Error(t, run("cd /proc/self/fd/3; "+script), script)
	}
	require.NoError(t, run("cd /proc/self/fd/3; echo x >> mine; touch own/new; mkdir own/dir; rm own/new; chmod 600 mine; cat theirs made d/in >/dev/null"))
	require.Equal(t, "base\nx\n", text(t, s.in("mine")))
	require.Equal(t, "root's\n", text(t, s.in("made")))
}
