package fusefs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// overlaid is a view whose names "private" and "mixed/own*" live in a second
// root, as a git directory's private parts do.
func overlaid(t *testing.T) (v *view, second string) {
	second = t.TempDir()
	fd, err := unix.Open(second, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	v = mountView(t, func(c *Config) {
		c.Roots = append(c.Roots, fd)
		c.Guard.(*testGuard).route = func(p string) int {
			if p == "private" || strings.HasPrefix(p, "private/") || strings.HasPrefix(p, "mixed/own") {
				return 1
			}
			return 0
		}
	})
	return v, second
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}

func TestADirectoryShowsEachNameFromItsRoot(t *testing.T) {
	v, second := overlaid(t)
	require.NoError(t, os.Mkdir(v.raw("mixed"), 0o750))
	write(t, v.raw("mixed/shared"), "shared")
	write(t, v.raw("mixed/own"), "covered")
	require.NoError(t, os.Mkdir(v.raw("private"), 0o755)) // covered as well
	write(t, v.raw("private/x"), "covered")
	write(t, filepath.Join(second, "stray"), "not routed here")
	require.Equal(t, []string{"mixed"}, names(t, v.mnt))
	require.Equal(t, []string{"shared"}, names(t, v.in("mixed")))
	_, err := os.Lstat(v.in("mixed/own"))
	require.ErrorIs(t, err, syscall.ENOENT)

	// Directories above a private name are made like those they mirror.
	write(t, v.in("mixed/own"), "mine")
	require.Equal(t, "mine", content(t, filepath.Join(second, "mixed/own")))
	require.Equal(t, os.FileMode(0o750), modeOf(t, filepath.Join(second, "mixed")).Perm())
	require.Equal(t, "covered", content(t, v.raw("mixed/own")))
	require.Equal(t, []string{"own", "shared"}, names(t, v.in("mixed")))

	require.NoError(t, os.MkdirAll(v.in("private/a/b"), 0o755))
	write(t, v.in("private/a/b/f"), "deep")
	require.Equal(t, "deep", content(t, filepath.Join(second, "private/a/b/f")))
	require.Equal(t, []string{"mixed", "private"}, names(t, v.mnt))
	require.NoError(t, os.Rename(v.in("private/a"), v.in("private/c")))
	require.Equal(t, "deep", content(t, filepath.Join(second, "private/c/b/f")))

	// Nothing moves or links across.
	require.ErrorIs(t, os.Rename(v.in("mixed/own"), v.in("plain")), syscall.EXDEV)
	require.ErrorIs(t, os.Rename(v.in("mixed/shared"), v.in("mixed/own2")), syscall.EXDEV)
	require.ErrorIs(t, os.Link(v.in("mixed/shared"), v.in("private/l")), syscall.EXDEV)
	require.ErrorIs(t, os.Rename(v.in("mixed"), v.in("moved")), syscall.EXDEV)
	require.ErrorIs(t, os.Rename(v.in("mixed"), v.in("private/moved")), syscall.EXDEV)

	// A directory is empty when it is empty in every root.
	require.NoError(t, os.Remove(v.in("mixed/shared")))
	require.NoError(t, os.Remove(v.raw("mixed/own")))
	require.ErrorIs(t, unix.Rmdir(v.in("mixed")), syscall.ENOTEMPTY)
	require.NoError(t, os.Remove(v.in("mixed/own")))
	require.NoError(t, unix.Rmdir(v.in("mixed")))
	require.NoDirExists(t, filepath.Join(second, "mixed"))

	require.NoError(t, os.RemoveAll(v.in("private")))
	require.Equal(t, "covered", content(t, v.raw("private/x")), "the covered copy is untouched")
	require.Equal(t, "not routed here", content(t, filepath.Join(second, "stray")))
}

func TestAViewOverItsOwnBackingDirectory(t *testing.T) {
	over := t.TempDir()
	write(t, filepath.Join(over, "f"), "below")
	fd, err := unix.Open(over, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	v := mountView(t, func(c *Config) { c.Roots = []int{fd}; c.Mountpoint = over })
	require.Equal(t, "below", content(t, v.in("f")))
	write(t, v.in("g"), "new")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, v.fs.Unmount(ctx))
	require.Equal(t, "new", content(t, filepath.Join(over, "g")))
}

func TestAPolicyChangeReachesWhatTheKernelCached(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.MkdirAll(v.raw("d/sub"), 0o755))
	write(t, v.raw("d/f"), "text")
	require.Equal(t, []string{"f", "sub"}, names(t, v.in("d")))
	require.Equal(t, "text", content(t, v.in("d/f")))
	wd, err := os.Open(v.in("d/sub"))
	require.NoError(t, err)
	defer wd.Close()

	v.g.set(func() { v.g.visible = func(p string, _ bool) bool { return p != "d/f" } })
	v.fs.InvalidateAll()
	require.Equal(t, []string{"sub"}, names(t, v.in("d")))
	_, err = os.Lstat(v.in("d/f"))
	require.ErrorIs(t, err, syscall.ENOENT)
	link, err := os.Readlink(backing.ProcPath(int(wd.Fd())))
	require.NoError(t, err)
	require.Equal(t, v.in("d/sub"), link, "open directories that stay visible stay attached")

	v.g.set(func() { v.g.visible = nil })
	v.fs.InvalidateAll()
	require.Equal(t, []string{"f", "sub"}, names(t, v.in("d")))
	require.Equal(t, "text", content(t, v.in("d/f")))
}

func TestAChangeBehindTheViewIsSeenAfterInvalidation(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	write(t, v.raw("d/old"), "old")
	write(t, v.raw("d/same"), "one")
	require.Equal(t, []string{"old", "same"}, names(t, v.in("d")))
	require.Equal(t, "one", content(t, v.in("d/same")))
	require.NoError(t, os.Remove(v.raw("d/old")))
	write(t, v.raw("d/new"), "new")
	write(t, v.raw("d/same"), "changed")
	v.fs.InvalidatePath("d")
	require.Equal(t, []string{"new", "same"}, names(t, v.in("d")))
	require.Equal(t, "changed", content(t, v.in("d/same")))
	_, err := os.Lstat(v.in("d/old"))
	require.ErrorIs(t, err, syscall.ENOENT)
}

func TestUnmountIsBoundedHoweverBusyTheViewIs(t *testing.T) {
	v := mountView(t)
	write(t, v.in("f"), "x")
	f, err := os.OpenFile(v.in("f"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	c := helper(t, "append", v.in("f"))
	entered := make(chan struct{}, 1)
	v.g.set(func() {
		v.g.write = func(ctx ctxT, _ Caller, _ Op, _ []Target) syscall.Errno {
			entered <- struct{}{}
			<-ctx.Done()
			return syscall.EINTR
		}
	})
	c.Stderr = nil
	require.NoError(t, c.Start())
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, v.fs.Unmount(ctx))
	require.False(t, mounted(t, v.mnt))
	require.Error(t, c.Wait())
	err = f.Truncate(0)
	require.ErrorIs(t, err, syscall.ENOTCONN)
	require.NoError(t, v.fs.Unmount(ctx), "a second time is no fault")
}

func TestAViewEndedFromOutsideParksNobody(t *testing.T) {
	v := mountView(t)
	write(t, v.raw("f"), "")
	entered, ended := make(chan struct{}, 9), make(chan struct{}, 9)
	v.g.set(func() {
		v.g.write = func(ctx ctxT, _ Caller, _ Op, _ []Target) syscall.Errno {
			entered <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return syscall.EINTR
		}
	})
	c := helper(t, "append", v.in("f"))
	c.Stderr = nil
	require.NoError(t, c.Start())
	<-entered
	require.NoError(t, unix.Unmount(v.mnt, unix.MNT_FORCE|unix.MNT_DETACH))
	require.Error(t, c.Wait())
	<-ended
	v.fs.Wait()
	require.False(t, mounted(t, v.mnt))
}

func TestServeEndsWithItsContext(t *testing.T) {
	v := mountView(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.fs.Serve(ctx) }()
	cancel()
	require.NoError(t, <-ended)
	require.False(t, mounted(t, v.mnt))
	v.fs.Wait()
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	file, err := os.Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	defer file.Close()
	g := &testGuard{}
	for name, c := range map[string]Config{
		"no root":       {Guard: g, Mountpoint: dir},
		"no guard":      {Roots: []int{fd}, Mountpoint: dir},
		"no mountpoint": {Roots: []int{fd}, Guard: g},
		"bad root":      {Roots: []int{1 << 20}, Guard: g, Mountpoint: dir},
		"a file":        {Roots: []int{int(file.Fd())}, Guard: g, Mountpoint: dir},
	} {
		_, err := New(c)
		require.Error(t, err, name)
	}
	needFUSE(t)
	f, err := New(Config{Roots: []int{fd}, Guard: g, Mountpoint: dir + "/missing"})
	require.NoError(t, err)
	require.Error(t, f.Mount(t.Context()))
	f.Close()
}
