package shim

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/policy"
	"polis/fusefs/view"
	"polis/lockd"
)

// leasedView is a mounted view whose guard takes its leases from a real server.
type leasedView struct {
	mnt    string
	server *lockd.Server

	mu      sync.Mutex
	denials []view.Denial
}

func mountLeased(t *testing.T, rules policy.Rules) *leasedView {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); os.Geteuid() != 0 || err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root and /dev/fuse")
		}
		t.Skip("needs root and /dev/fuse")
	}
	dir := t.TempDir()
	tree, mnt := filepath.Join(dir, "tree"), filepath.Join(dir, "mnt")
	require.NoError(t, os.Mkdir(tree, 0o755))
	require.NoError(t, os.Mkdir(mnt, 0o755))
	v := &leasedView{mnt: mnt, server: lockd.New()}
	v.server.Path, v.server.Grace = filepath.Join(dir, "s"), 0
	require.NoError(t, v.server.Open())
	t.Cleanup(func() { require.NoError(t, v.server.Close()) })
	c := lockd.NewClient(v.server.Path, "/ws", "ann")
	require.NoError(t, c.Open())
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	root, err := openDir(tree)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	set, err := policy.Compile(rules)
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	guard, err := view.New(view.Config{Agent: "ann", Locker: locker{c: c, waited: &atomic.Int64{}}, RootFD: int(root.Fd()), Log: log, OnDenial: func(d view.Denial) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.denials = append(v.denials, d)
	}}, set)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, guard.Close()) })
	fs, err := fusefs.New(fusefs.Config{Roots: []int{int(root.Fd())}, Guard: guard, Mountpoint: mnt, FsName: "polis:test", Log: log})
	require.NoError(t, err)
	require.NoError(t, fs.Mount(t.Context()))
	t.Cleanup(func() { require.NoError(t, fs.Unmount(context.Background())) })
	return v
}

// denied returns the last refusal that was reported.
func (v *leasedView) denied(t *testing.T) view.Denial {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	require.NotEmpty(t, v.denials)
	return v.denials[len(v.denials)-1]
}

var everything = policy.Rules{Read: []string{"**"}, Write: []string{"**"}}

// A file may have more names than one lock request may have keys, and all of
// them can be written to, changed and removed.
func TestAFileWithMoreLinksThanALockRequestHasKeys(t *testing.T) {
	v := mountLeased(t, everything)
	first := filepath.Join(v.mnt, "first")
	require.NoError(t, os.WriteFile(first, []byte("one"), 0o644))
	const links = 2500
	for i := range links {
		require.NoError(t, unix.Link(first, filepath.Join(v.mnt, fmt.Sprint("l", i))), "link %d", i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(v.mnt, "l1200"), []byte("two"), 0o644))
	require.NoError(t, os.Chmod(filepath.Join(v.mnt, "l7"), 0o600))
	got, err := os.ReadFile(filepath.Join(v.mnt, fmt.Sprint("l", links-1)))
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	// A write changes what every name shows: every name is leased for it. What
	// was granted in a delegated directory is reported a moment later.
	require.Eventually(t, func() bool {
		held := map[string]bool{}
		for _, l := range v.server.List(lockd.Filter{Holder: "ann"}) {
			held[l.Path] = true
		}
		for i := range links {
			if !held[fmt.Sprint("l", i)] {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond)
	for i := range links {
		require.NoError(t, os.Remove(filepath.Join(v.mnt, fmt.Sprint("l", i))))
	}
}

// No operation makes a name whose path is longer than PATH_MAX; the refusal names the limit; and
// the deepest possible name can be removed.
func TestPathsLongerThanPathMaxAreRefusedAlike(t *testing.T) {
	v := mountLeased(t, everything)
	name := strings.Repeat("d", 200)
	var dirs []int
	at, err := unix.Open(v.mnt, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	dirs = append(dirs, at)
	defer func() {
		for _, fd := range dirs {
			require.NoError(t, unix.Close(fd))
		}
	}()
	for i := 0; ; i++ {
		require.Less(t, i, 100, "no end of directories")
		if err = unix.Mkdirat(at, name, 0o755); err != nil {
			break
		}
		at, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		dirs = append(dirs, at)
	}
	require.ErrorIs(t, err, unix.ENAMETOOLONG)
	d := v.denied(t)
	require.Equal(t, "ENAMETOOLONG", d.Errno)
	require.Equal(t, view.CodeTooLarge, d.Code)
	require.Contains(t, d.Rule, "4096")
	require.NotContains(t, d.Hint, "polisd")

	short, err := unix.Openat(at, "s", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	require.NoError(t, err)
	require.NoError(t, unix.Close(short))
	for what, try := range map[string]func() error{
		"create": func() error {
			_, err := unix.Openat(at, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			return err
		},
		"mkdir":   func() error { return unix.Mkdirat(at, name, 0o755) },
		"mknod":   func() error { return unix.Mknodat(at, name, unix.S_IFREG|0o644, 0) },
		"mkfifo":  func() error { return unix.Mknodat(at, name, unix.S_IFIFO|0o644, 0) },
		"symlink": func() error { return unix.Symlinkat("x", at, name) },
		"link":    func() error { return unix.Linkat(at, "s", at, name, 0) },
		"rename":  func() error { return unix.Renameat(at, "s", at, name) },
	} {
		require.ErrorIs(t, try(), unix.ENAMETOOLONG, what)
	}

	// A directory that moves takes what is in it past the bound. It can be removed there.
	require.NoError(t, unix.Mkdirat(dirs[0], "top", 0o755))
	inner, err := unix.Openat(dirs[0], "top", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	dirs = append(dirs, inner)
	for _, in := range []string{name, name + "2"} {
		fd, err := unix.Openat(inner, in, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
	}
	require.NoError(t, unix.Mkdirat(inner, name+"3", 0o755))
	require.NoError(t, unix.Renameat(dirs[0], "top", at, "t"))
	fd, err := unix.Openat(inner, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err, "what is there can be written")
	require.NoError(t, unix.Close(fd))
	require.NoError(t, unix.Unlinkat(inner, name, 0))
	require.NoError(t, unix.Renameat(inner, name+"2", dirs[0], "back"))
	require.NoError(t, unix.Unlinkat(inner, name+"3", unix.AT_REMOVEDIR))
	require.NoError(t, unix.Unlinkat(at, "t", unix.AT_REMOVEDIR))
	require.NoError(t, unix.Unlinkat(at, "s", 0))
	for i := len(dirs) - 3; i >= 0; i-- {
		require.NoError(t, unix.Unlinkat(dirs[i], name, unix.AT_REMOVEDIR), "directory %d", i)
	}
}
