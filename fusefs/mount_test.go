package fusefs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// needFUSE skips where a real mount is impossible, except in CI.
func needFUSE(t testing.TB) {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "needs root"
	} else if _, err := os.Stat("/dev/fuse"); err != nil {
		why = "needs /dev/fuse"
	}
	if why == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// testGuard allows everything unless a test sets otherwise, and counts.
type testGuard struct {
	mu      sync.Mutex
	visible func(path string, dir bool) bool
	read    func(ctx context.Context, op Op, path string) syscall.Errno
	write   func(ctx context.Context, c Caller, op Op, targets []Target) syscall.Errno
	publish func(oldPath, newPath string, content int) syscall.Errno
	route   func(path string) int
	xattr   map[string]string
	writes  []asked
	reads   []asked
	counts  map[Op]int
	open    int // tickets not done yet
	objects atomic.Int64
}

// Counted is part of ObjectCounter.
func (g *testGuard) Counted(_ string, n int) { g.objects.Add(int64(n)) }

type ctxT = context.Context

type asked struct {
	op      Op
	targets []Target
}

type testTicket struct {
	g    *testGuard
	once sync.Once
}

func (t *testTicket) Done() {
	t.once.Do(func() {
		t.g.mu.Lock()
		defer t.g.mu.Unlock()
		t.g.open--
	})
}

func (g *testGuard) Visible(path string, dir bool) bool {
	g.mu.Lock()
	f := g.visible
	g.mu.Unlock()
	return f == nil || f(path, dir)
}

func (g *testGuard) Read(ctx context.Context, _ Caller, op Op, path string) syscall.Errno {
	g.mu.Lock()
	g.reads = append(g.reads, asked{op, []Target{{Path: path}}})
	f := g.read
	g.mu.Unlock()
	if f == nil {
		return 0
	}
	return f(ctx, op, path)
}

func (g *testGuard) Write(ctx context.Context, c Caller, op Op, targets ...Target) (Ticket, syscall.Errno) {
	g.mu.Lock()
	g.writes = append(g.writes, asked{op, targets})
	f := g.write
	g.mu.Unlock()
	if f != nil {
		if e := f(ctx, c, op, targets); e != 0 {
			return nil, e
		}
	}
	g.mu.Lock()
	g.open++
	g.mu.Unlock()
	return &testTicket{g: g}, 0
}

func (g *testGuard) Publish(_ context.Context, _ Caller, oldPath, newPath string, content int) syscall.Errno {
	g.mu.Lock()
	f := g.publish
	g.mu.Unlock()
	if f == nil {
		return 0
	}
	return f(oldPath, newPath, content)
}

func (g *testGuard) Route(path string) int {
	if g.route == nil {
		return 0
	}
	return g.route(path)
}

func (g *testGuard) Xattr(_, name string) ([]byte, bool) {
	v, ok := g.xattr[name]
	return []byte(v), ok
}

func (g *testGuard) Count(op Op, _ bool, _ syscall.Errno, _ int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.counts == nil {
		g.counts = map[Op]int{}
	}
	g.counts[op]++
}

func (g *testGuard) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func (g *testGuard) tickets() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

type view struct {
	fs   *FS
	g    *testGuard
	back string // the first backing directory
	mnt  string
}

func (v *view) in(parts ...string) string { return filepath.Join(append([]string{v.mnt}, parts...)...) }
func (v *view) raw(parts ...string) string {
	return filepath.Join(append([]string{v.back}, parts...)...)
}

// mountView mounts a view of a new directory and checks at the end that it
// goes away completely.
func mountView(t testing.TB, opts ...func(*Config)) *view {
	t.Helper()
	if os.Getenv("FUSEFS_OVERLAY") != "" {
		return mountViewOf(t, overlayDir(t), opts...)
	}
	return mountViewOf(t, t.TempDir(), opts...)
}

// overlayDir mounts an empty overlayfs, as below the view of a worktree that shares a base tree.
// FUSEFS_OVERLAY=1 runs all tests of a view on one.
func overlayDir(t testing.TB) string {
	t.Helper()
	needFUSE(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l := overlayfs.Layers{Lower: []string{at("lower")}, Upper: at("upper"), Work: at("work"), Target: at("merged")}
	for _, d := range []string{l.Lower[0], l.Upper, l.Work, l.Target} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	require.NoError(t, overlayfs.Mount(l))
	t.Cleanup(func() { require.NoError(t, overlayfs.Unmount(l.Target)) })
	return l.Target
}

// needTmpfile skips where the file system of dir cannot make a file without a name.
func needTmpfile(t testing.TB, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("no O_TMPFILE here: overlayfs has it from Linux 6.10")
	}
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
}

// mountViewOf mounts a view of the directory back.
func mountViewOf(t testing.TB, back string, opts ...func(*Config)) *view {
	t.Helper()
	return mountPrepared(t, back, func(*FS) {}, opts...)
}

// mountPrepared is mountViewOf. prepare is called before the view is mounted.
func mountPrepared(t testing.TB, back string, prepare func(*FS), opts ...func(*Config)) *view {
	t.Helper()
	needFUSE(t)
	v := &view{g: &testGuard{}, back: back, mnt: t.TempDir()}
	require.NoError(t, os.Chmod(v.back, 0o755))
	root, err := unix.Open(v.back, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(root)
	cfg := Config{Roots: []int{root}, Guard: v.g, Mountpoint: v.mnt, FsName: "polis-test"}
	for _, o := range opts {
		o(&cfg)
	}
	v.mnt = cfg.Mountpoint
	v.fs, err = New(cfg)
	require.NoError(t, err)
	prepare(v.fs)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, v.fs.Mount(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, v.fs.Unmount(ctx))
		require.False(t, mounted(t, v.mnt), "the view is still mounted")
		require.Zero(t, v.g.tickets(), "tickets left")
	})
	return v
}

func mounted(t testing.TB, dir string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	return strings.Contains(string(b), " "+dir+" ")
}

func write(t testing.TB, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}
