package storedtree

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// rules hide and deny what is in lists.
type rules struct {
	mu           sync.Mutex
	hidden, deny []string
	pids         []uint32
}

func (r *rules) set(hidden, deny []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden, r.deny = hidden, deny
}

func (r *rules) Visible(path string, _ bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.hidden, func(h string) bool { return path == h || strings.HasPrefix(path, h+"/") })
}

func (r *rules) Read(pid uint32, _ bool, path string) unix.Errno {
	r.mu.Lock()
	r.pids = append(r.pids, pid)
	r.mu.Unlock()
	if r.Forbidden(path) {
		return unix.EACCES
	}
	return 0
}

func (r *rules) Forbidden(path string) bool {
	visible := r.Visible(path, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	return !visible || slices.Contains(r.deny, path)
}

func (r *rules) saw(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.pids, uint32(pid))
}

func names(t *testing.T, dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestRulesCountAtOnce for names, contents and links, also of what the kernel has seen before, and of files and
// directories that are open.
func TestRulesCountAtOnce(t *testing.T) {
	o, r := objects{t.TempDir()}, &rules{}
	link := o.text(t, "link", "a")
	link.Type = unix.S_IFLNK
	at, f := mountedWith(t, o, r, o.text(t, "a", "one\n"), o.text(t, "b", "two\n"), dir("d"), dir("d/e"), o.text(t, "d/e/f", "three\n"), link)
	path := func(p string) string { return filepath.Join(at, p) }
	see := func() {
		for _, p := range []string{"a", "b", "d/e/f", "link"} {
			_, err := os.ReadFile(path(p))
			require.NoError(t, err, p)
		}
		require.Equal(t, []string{"a", "b", "d", "link"}, names(t, at))
		require.Equal(t, []string{"e"}, names(t, path("d")))
		_, err := os.Stat(path("none"))
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	func() { // the kernel names the thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		see()
		require.True(t, r.saw(unix.Gettid()), "rules see who reads")
	}()
	open, err := os.Open(path("a"))
	require.NoError(t, err)
	defer open.Close()
	mapped, err := unix.Mmap(int(open.Fd()), 0, 4, unix.PROT_READ, unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer unix.Munmap(mapped) //nolint:errcheck // the test ends
	require.Equal(t, "one\n", string(mapped))
	inside, err := os.Open(path("d/e"))
	require.NoError(t, err)
	defer inside.Close()

	r.set([]string{"d/e"}, []string{"a", "link"})
	require.NoError(t, f.RulesChanged())
	require.Equal(t, []string{"a", "b", "d", "link"}, names(t, at), "what cannot be read has a name and attributes")
	fi, err := os.Stat(path("a"))
	require.NoError(t, err)
	require.Equal(t, int64(4), fi.Size())
	_, err = os.ReadFile(path("a"))
	require.ErrorIs(t, err, unix.EACCES)
	_, err = os.Readlink(path("link"))
	require.ErrorIs(t, err, unix.EACCES)
	_, err = open.ReadAt(make([]byte, 4), 0)
	require.ErrorIs(t, err, unix.EACCES, "a file that is open")
	require.Empty(t, names(t, path("d")), "what is hidden has no name")
	for _, p := range []string{"d/e", "d/e/f"} {
		_, err = os.Lstat(path(p))
		require.ErrorIs(t, err, fs.ErrNotExist, p)
	}
	_, err = inside.Readdirnames(-1)
	require.Error(t, err, "a directory that is open")
	var st unix.Stat_t
	require.Error(t, unix.Fstatat(int(inside.Fd()), "f", &st, 0))
	var all unix.Statfs_t
	require.NoError(t, unix.Statfs(at, &all))
	require.Zero(t, all.Files, "their number is not said")

	r.set(nil, nil)
	require.NoError(t, f.RulesChanged())
	see()
	b := make([]byte, 4)
	_, err = open.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(b))
}

func TestOpenFilesAreBounded(t *testing.T) {
	o := objects{t.TempDir()}
	at, f := mountedWith(t, o, &rules{}, o.text(t, "a", "one\n"))
	f.mu.Lock()
	f.cfg.MaxOpen = 3
	f.mu.Unlock()
	var all []*os.File
	for {
		g, err := os.Open(filepath.Join(at, "a"))
		if err != nil {
			require.ErrorIs(t, err, unix.ENFILE)
			break
		}
		all = append(all, g)
	}
	require.Len(t, all, 3)
	for _, g := range all {
		require.NoError(t, g.Close())
	}
}
