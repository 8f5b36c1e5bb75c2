package fusefs

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// cacheableGuard is a guard whose answers follow from a rule that is swapped
// whole: names that contain deny cannot be read, those that contain hide are not
// there.
type cacheableGuard struct {
	testGuard
	gen        atomic.Uint64
	deny, hide atomic.Pointer[string]
	asked      atomic.Int64 // how often anything was asked about a name
}

func newCacheable() *cacheableGuard {
	g := &cacheableGuard{}
	g.rule("secret", "hidden")
	g.visible = func(path string, _ bool) bool { return !strings.Contains(path, *g.hide.Load()) }
	g.read = func(_ ctxT, _ Op, path string) syscall.Errno {
		if strings.Contains(path, *g.deny.Load()) {
			return syscall.EACCES
		}
		return 0
	}
	return g
}

// rule swaps the rules; "-" names nothing.
func (g *cacheableGuard) rule(deny, hide string) {
	g.deny.Store(&deny)
	g.hide.Store(&hide)
	g.gen.Add(1)
}

func (g *cacheableGuard) Generation() uint64 { return g.gen.Load() }

func (g *cacheableGuard) CachedVerdict(path string, _ bool) CachedVerdict {
	g.asked.Add(1)
	switch {
	case strings.Contains(path, *g.hide.Load()):
		return Unreadable | Unwritable
	case strings.Contains(path, *g.deny.Load()):
		return Shown | Unreadable | Unwritable
	}
	return Shown | Readable
}

func mountWith(t testing.TB, g Guard) *view {
	return mountView(t, func(c *Config) { c.Guard = g })
}

func readable(path string) error {
	_, err := os.ReadFile(path)
	return err
}

// What the guard said is remembered, and forgotten the moment it may say
// something else.
func TestAnswersAreRememberedUntilTheRulesChange(t *testing.T) {
	g := newCacheable()
	v := mountWith(t, g)
	for _, name := range []string{"d/plain", "d/secret", "d/hidden"} {
		require.NoError(t, os.MkdirAll(v.raw("d"), 0o755))
		write(t, v.raw(name), name)
	}
	for range 3 {
		require.NoError(t, readable(v.in("d/plain")))
		require.ErrorIs(t, readable(v.in("d/secret")), syscall.EACCES)
		require.ErrorIs(t, readable(v.in("d/hidden")), syscall.ENOENT)
	}
	before := g.asked.Load()
	for range 100 {
		require.NoError(t, readable(v.in("d/plain")))
	}
	require.Equal(t, before, g.asked.Load(), "a warm open asks nothing")

	g.rule("plain", "secret") // an open is gated at once, before any invalidation
	require.ErrorIs(t, readable(v.in("d/plain")), syscall.EACCES)
	v.fs.InvalidateAll()
	require.ErrorIs(t, readable(v.in("d/secret")), syscall.ENOENT)
	require.NoError(t, readable(v.in("d/hidden")), "a name that was absent is there")

	g.rule("-", "-")
	v.fs.InvalidateAll()
	for _, name := range []string{"d/plain", "d/secret", "d/hidden"} {
		require.NoError(t, readable(v.in(name)))
	}
}

// A name takes the rules of the place it comes to, and so does what is below.
func TestAnswersDoNotMoveWithANameOrItsDirectory(t *testing.T) {
	g := newCacheable()
	v := mountWith(t, g)
	require.NoError(t, os.MkdirAll(v.raw("a/b"), 0o755))
	write(t, v.raw("a/b/f"), "1")
	require.NoError(t, readable(v.in("a/b/f")))
	require.NoError(t, os.Rename(v.in("a"), v.in("secret")))
	require.ErrorIs(t, readable(v.in("secret/b/f")), syscall.EACCES)
	require.NoError(t, os.Rename(v.in("secret/b"), v.in("b")))
	require.NoError(t, readable(v.in("b/f")))
	require.NoError(t, os.Rename(v.in("b/f"), v.in("b/secret")))
	require.ErrorIs(t, readable(v.in("b/secret")), syscall.EACCES)

	// One readable name of a hard link is enough, and none is not.
	require.NoError(t, os.Link(v.in("b/secret"), v.in("b/free")))
	require.NoError(t, readable(v.in("b/free")))
	require.NoError(t, os.Remove(v.in("b/free")))
	require.ErrorIs(t, readable(v.in("b/secret")), syscall.EACCES)
}

// A file opened without a descriptor is still the right one after its name has
// moved, gone, or come to stand for another file.
func TestALightOpenReadsTheFileThatWasOpened(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, v *view){
		"nothing happens": func(*testing.T, *view) {},
		"renamed":         func(t *testing.T, v *view) { require.NoError(t, os.Rename(v.in("f"), v.in("g"))) },
		"directory moved": func(t *testing.T, v *view) {
			require.NoError(t, os.Mkdir(v.in("d"), 0o755))
			require.NoError(t, os.Rename(v.in("f"), v.in("d/f")))
			require.NoError(t, os.Rename(v.in("d"), v.in("e")))
		},
		"removed": func(t *testing.T, v *view) { require.NoError(t, os.Remove(v.in("f"))) },
		"replaced": func(t *testing.T, v *view) {
			require.NoError(t, os.WriteFile(v.in("n"), []byte("another"), 0o644))
			require.NoError(t, os.Rename(v.in("n"), v.in("f")))
		},
		"one of two links removed": func(t *testing.T, v *view) {
			require.NoError(t, os.Link(v.raw("f"), v.raw("unseen")))
			require.NoError(t, os.Remove(v.in("f")))
		},
		"removed and made again": func(t *testing.T, v *view) {
			require.NoError(t, os.Remove(v.in("f")))
			require.NoError(t, os.WriteFile(v.in("f"), []byte("another"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := mountWith(t, newCacheable())
			content := strings.Repeat("0123456789abcdef", 1024)
			write(t, v.raw("f"), content)
			_, err := os.Stat(v.in("f"))
			require.NoError(t, err)
			// The first open makes the guard's answer known, the second is light.
			var fds [2]int
			for i := range fds {
				fds[i], err = unix.Open(v.in("f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
				require.NoError(t, err)
				defer unix.Close(fds[i])
			}
			change(t, v)
			buf := make([]byte, len(content)+1)
			for i := len(fds) - 1; i >= 0; i-- {
				n, err := unix.Pread(fds[i], buf, 0)
				require.NoError(t, err)
				require.Equal(t, content, string(buf[:n]))
			}
		})
	}
}

// Light opens need no descriptor however many there are.
func TestManyLightOpensNeedFewDescriptors(t *testing.T) {
	v := mountWith(t, newCacheable())
	const files = 300
	for i := range files {
		write(t, v.raw(filepath.Join("f"+string(rune('a'+i%26))+strings.Repeat("x", i/26))), "x")
	}
	entries, err := os.ReadDir(v.in("."))
	require.NoError(t, err)
	require.Len(t, entries, files)
	for _, e := range entries {
		_, err := os.Lstat(v.in(e.Name()))
		require.NoError(t, err)
	}
	before := descriptors(t)
	for _, e := range entries {
		fd, err := unix.Open(v.in(e.Name()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
	}
	require.LessOrEqual(t, descriptors(t)-before, files+20, "one each for the caller, none for the server")
}
