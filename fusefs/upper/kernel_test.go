package upper_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/overlayfs"
	"polis/fusefs/upper"
	"polis/internal/kmsg"
	"polis/internal/need"
)

// asked is what the guard of the merged tree was asked, as "op path" or "op from to".
type asked struct {
	mu       sync.Mutex
	log      []string
	recorded []string                 // without copies
	deny     map[string]syscall.Errno // by path
	route    func(path string) int
}

func (g *asked) Visible(string, bool) bool { return true }
func (g *asked) Route(path string) int {
	if g.route == nil {
		return 0
	}
	return g.route(path)
}
func (g *asked) Xattr(string, string) ([]byte, bool)         { return nil, false }
func (g *asked) Count(fusefs.Op, bool, syscall.Errno, int64) {}
func (g *asked) Generation() uint64                          { return 0 }
func (g *asked) CachedVerdict(string, bool) fusefs.CachedVerdict {
	return fusefs.Shown | fusefs.Readable
}
func (g *asked) PublishesAll() bool                                                   { return true }
func (g *asked) Counted(string, int)                                                  {}
func (g *asked) Watched([]fusefs.Target) bool                                         { return false }
func (g *asked) MayCarry(string, bool) bool                                           { return true }
func (g *asked) Read(context.Context, fusefs.Caller, fusefs.Op, string) syscall.Errno { return 0 }
func (g *asked) Publish(context.Context, fusefs.Caller, string, string, int) syscall.Errno {
	return 0
}

func (g *asked) Write(_ context.Context, _ fusefs.Caller, op fusefs.Op, targets ...fusefs.Target) (fusefs.Ticket, syscall.Errno) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := string(op)
	for _, t := range targets {
		if !t.Source || op != fusefs.OpLink || len(targets) == 1 {
			text += " " + t.Path
		} else {
			text += " from " + t.Path
		}
		if e := g.deny[t.Path]; e != 0 {
			g.log = append(g.log, "denied "+text)
			return nil, e
		}
	}
	g.log = append(g.log, text)
	return ticket{}, 0
}

// refuse makes the guard deny changes of a path.
func (g *asked) refuse(path string, e syscall.Errno) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deny[path] = e
}

// take returns the questions since the last call, each once, without setattr.
func (g *asked) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for _, q := range g.log {
		if !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	g.log = nil
	return out
}

type ticket struct{}

func (ticket) Done() {}

type stack struct {
	g                  *asked
	fs                 *fusefs.FS
	lower, upper, work string
	at, view           string
	tree               *overlayfs.Tree
}

func (s *stack) in(name string) string { return filepath.Join(s.at, name) }

// dirFD opens a directory until the end of the test.
func dirFD(t testing.TB, path string) int {
	t.Helper()
	d, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(d) })
	return d
}

func inodeOf(fi os.FileInfo) uint64 { return fi.Sys().(*syscall.Stat_t).Ino }

// mount puts an overlay above a view of an empty directory, with files below.
func mount(t testing.TB, files map[string]string, change ...func(*asked, *fusefs.Config)) *stack {
	t.Helper()
	need.Root(t)
	need.Device(t, "/dev/fuse")
	kmsg.NoWarnings(t)
	dir := t.TempDir()
	s := &stack{g: &asked{deny: map[string]syscall.Errno{}}, lower: filepath.Join(dir, "lower"), upper: filepath.Join(dir, "own"), work: filepath.Join(dir, "work"), at: filepath.Join(dir, "at"), view: filepath.Join(dir, "hidden", "view")}
	for _, d := range []string{s.lower, s.upper, s.work, s.at} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	require.NoError(t, os.MkdirAll(s.view, 0o700))
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(s.lower, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(s.lower, name), []byte(text), 0o644))
	}
	root, work := dirFD(t, s.upper), dirFD(t, s.work)
	var err error
	s.tree, err = overlayfs.NewTree(root, dirFD(t, s.lower))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.tree.Close()) })
	guard, err := upper.New(s.g, s.tree, work)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, guard.Close()) })
	cfg := fusefs.Config{Roots: []int{root}, Work: work, Guard: guard, Mountpoint: s.view, FsName: "polis-test", Above: s.at, AbovePaths: []string{s.at}}
	for _, f := range change {
		f(s.g, &cfg)
	}
	s.fs, err = fusefs.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, s.fs.Mount(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.fs.Unmount(ctx))
	})
	require.NoError(t, s.mountAbove())
	t.Cleanup(func() { require.NoError(t, overlayfs.Unmount(s.at)) })
	s.g.take()
	return s
}

// mountAbove mounts the overlay.
func (s *stack) mountAbove() error {
	return fusefs.AsOverlay(func() error {
		return overlayfs.Mount(overlayfs.Layers{Lower: []string{s.lower}, Upper: filepath.Join(s.view, fusefs.UpperName), Work: filepath.Join(s.view, fusefs.WorkName), Target: s.at, Source: "polis-test"})
	})
}

func text(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// Every change reaches the guard as what it is in the merged tree.
func TestTheGuardSeesWhatTheAgentDoes(t *testing.T) {
	s := mount(t, map[string]string{"a": "base\n", "b": "base\n", "gone": "base\n", "d/in": "base\n", "d/two": "base\n", "e/in": "base\n", "f/x/deep": "base\n", "again": "base\n", "c": "base\n"})
	for _, c := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"read", func() error { _, err := os.ReadFile(s.in("d/in")); return err }, nil},
		{"append", func() error {
			f, err := os.OpenFile(s.in("a"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString("mine\n")
			return err
		}, []string{"tmpfile ", "open-write a"}},
		{"append in a directory", func() error { return os.WriteFile(s.in("f/x/deep"), []byte("mine\n"), 0o644) }, []string{"tmpfile ", "open-write f/x/deep"}},
		{"chmod", func() error { return os.Chmod(s.in("c"), 0o600) }, []string{"tmpfile ", "open-write c", "setattr c"}},
		{"unlink", func() error { return os.Remove(s.in("gone")) }, []string{"unlink gone"}},
		{"create", func() error { return os.WriteFile(s.in("new"), nil, 0o644) }, []string{"mknod new", "open-write new"}},
		{"create what was removed", func() error { return os.WriteFile(s.in("gone"), []byte("new\n"), 0o644) }, []string{"create gone", "open-write gone"}},
		{"unlink it again", func() error { return os.Remove(s.in("gone")) }, []string{"unlink gone"}},
		{"mkdir what was removed", func() error { return os.Mkdir(s.in("gone"), 0o755) }, []string{"mkdir gone"}},
		{"rename", func() error { return os.Rename(s.in("b"), s.in("moved")) }, []string{"tmpfile ", "open-write b", "rename b moved"}},
		{"rename a directory", func() error { return os.Rename(s.in("d"), s.in("dir")) }, []string{"rename d dir"}},
		{"rename a directory to a removed name", func() error { return os.Rename(s.in("dir"), s.in("d")) }, []string{"rename dir d"}},
		{"empty a directory", func() error { return os.RemoveAll(s.in("e")) }, []string{"unlink e/in", "rmdir e"}},
		{"symlink", func() error { return os.Symlink("a", s.in("sym")) }, []string{"symlink sym"}},
		{"link", func() error { return os.Link(s.in("again"), s.in("hard")) }, []string{"tmpfile ", "open-write again", "link hard from again"}},
		{"truncate", func() error { return os.Truncate(s.in("f/x/deep"), 0) }, nil},
	} {
		require.NoError(t, c.do(), c.name)
		got := s.g.take()
		if c.want != nil || c.name == "read" {
			require.Subset(t, append(got, ""), append(c.want, ""), "%s: %q", c.name, got)
			for _, q := range got {
				require.NotContains(t, q, "/work", c.name)
			}
		}
		if c.name == "read" {
			require.Empty(t, got)
		}
		t.Log(c.name, got)
	}
	require.Equal(t, "base\nmine\n", text(t, s.in("a")))
	require.Equal(t, "base\n", text(t, s.in("d/in")))
	require.Equal(t, "base\n", text(t, s.in("moved")))
	require.Equal(t, "base\n", text(t, filepath.Join(s.lower, "a")))
	for _, name := range []string{"e", "b", "dir"} {
		require.NoFileExists(t, s.in(name))
	}
	list, err := s.tree.List("")
	require.NoError(t, err)
	var read []string
	for _, e := range list {
		read = append(read, e.Name())
	}
	var want []string
	seen, err := os.ReadDir(s.at)
	require.NoError(t, err)
	for _, e := range seen {
		want = append(want, e.Name())
	}
	require.ElementsMatch(t, want, read, "the tree without a mount has the same names")
	below, err := s.tree.List("d")
	require.NoError(t, err)
	require.Len(t, below, 2, "a directory of the base that was moved twice")
}

// A refusal is the error of the call, and changes nothing.
func TestARefusalChangesNothing(t *testing.T) {
	s := mount(t, map[string]string{"a": "base\n", "d/in": "base\n"})
	s.g.refuse("a", syscall.EBUSY)
	s.g.refuse("d/in", syscall.EACCES)
	s.g.refuse("new", syscall.EACCES)
	require.ErrorIs(t, os.WriteFile(s.in("a"), nil, 0o644), syscall.EBUSY)
	require.ErrorIs(t, os.Remove(s.in("a")), syscall.EBUSY)
	require.ErrorIs(t, os.Chmod(s.in("a"), 0o600), syscall.EBUSY)
	require.ErrorIs(t, os.Rename(s.in("a"), s.in("b")), syscall.EBUSY)
	require.ErrorIs(t, os.WriteFile(s.in("d/in"), nil, 0o644), syscall.EACCES)
	require.ErrorIs(t, os.WriteFile(s.in("new"), nil, 0o644), syscall.EACCES)
	require.ErrorIs(t, os.Mkdir(s.in("new"), 0o755), syscall.EACCES)
	require.Equal(t, "base\n", text(t, s.in("a")))
	require.Equal(t, "base\n", text(t, s.in("d/in")))
	names, err := os.ReadDir(s.upper)
	require.NoError(t, err)
	for _, e := range names {
		require.Equal(t, "d", e.Name(), "the copy of a directory changes nothing")
	}
	left, err := os.ReadDir(filepath.Join(s.work, "work"))
	require.NoError(t, err)
	for _, e := range left {
		require.Equal(t, os.ModeDevice|os.ModeCharDevice, e.Type(), "the overlay keeps one whiteout to link: %s", e)
	}
}

// No program makes a whiteout or an attribute of the overlay.
func TestOnlyTheOverlayMakesWhiteouts(t *testing.T) {
	s := mount(t, map[string]string{"a": "base\n", "d/in": "base\n"})
	require.ErrorIs(t, unix.Mknod(s.in("w"), unix.S_IFCHR, 0), unix.EPERM)
	require.ErrorIs(t, unix.Mknod(s.in("null"), unix.S_IFCHR, int(unix.Mkdev(1, 3))), unix.EPERM)
	require.ErrorIs(t, unix.Renameat2(unix.AT_FDCWD, s.in("a"), unix.AT_FDCWD, s.in("b"), unix.RENAME_WHITEOUT), unix.EINVAL)
	_ = unix.Setxattr(s.in("d"), "trusted.overlay.opaque", []byte("y"), 0) //nolint:errcheck // Linux 6.7 escapes the name, earlier kernels refuse it
	_, err := unix.Getxattr(filepath.Join(s.upper, "d"), "trusted.overlay.opaque", nil)
	require.Error(t, err)
	require.Equal(t, "base\n", text(t, s.in("d/in")))
}

// A program that works on the tree finds nothing unusual.
func TestProgramsWork(t *testing.T) {
	s := mount(t, map[string]string{"a": "base\n", "d/in": "base\n", "d/x/y": "base\n"})
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", `cd "$1"
		sed -i s/base/edited/ d/in; grep -q edited d/in
		git init -q .; git add -A; git -c user.name=a -c user.email=a@b commit -qm one
		mv d e; git add -A; git -c user.name=a -c user.email=a@b commit -qm two
		git checkout -q HEAD~1; test -e d/x/y; test ! -e e
		git status --porcelain | wc -l | grep -qx 0
		cp -a d copy; rm -rf d; test ! -e d; mkdir d; test -z "$(ls -A d)"
		mv copy/x d/x; test "$(cat d/x/y)" = base; rm -rf copy d
		python3 - <<-P
		import mmap
		f = open("a", "r+b"); m = mmap.mmap(f.fileno(), 0); m[0:4] = b"MMAP"; m.flush(); m.close(); f.close()
		P
		grep -q MMAP a`, "sh", s.at).CombinedOutput()
	require.NoError(t, err, string(out))
}
