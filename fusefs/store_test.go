package fusefs

import (
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/fusefs/overlay"
	"polis/fusefs/shared"
)

// installed is one agent's view with a package store in it.
type installed struct {
	*view
	store string // below the view: the agent's own part
}

// mountStore mounts views of one store.
func mountStore(t *testing.T, n int) (views []*installed, store string) {
	return mountStoreOver(t, n, func() string { return t.TempDir() })
}

// mountStoreOver is mountStore with the directories of the trees.
func mountStoreOver(t *testing.T, n int, back func() string) (views []*installed, store string) {
	needFUSE(t)
	store = filepath.Join(t.TempDir(), "store")
	for range n {
		s, err := shared.OpenStore(store)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		private, stage := t.TempDir(), t.TempDir()
		v := mountViewOf(t, back(), func(c *Config) {
			c.Roots = append(c.Roots, dirFDOf(t, private))
			c.Shared = &overlay.Shared{Lower: -1, Stage: dirFDOf(t, stage), Store: s, StoreRoot: 1}
			c.Guard.(*testGuard).route = func(p string) int {
				if p == shared.StoreName || strings.HasPrefix(p, shared.StoreName+"/") {
					return 1
				}
				return 0
			}
		})
		t.Cleanup(func() { require.Empty(t, names(t, stage), "staged copies are left") })
		views = append(views, &installed{v, private})
	}
	return views, store
}

func hashed(text string) (dir, name string) {
	h := sha512.Sum512([]byte(text))
	s := hex.EncodeToString(h[:])
	return shared.StoreName + "/v10/files/" + s[:2], s[2:]
}

// put writes text into the store as pnpm does, by a temporary file.
func (v *installed) put(t *testing.T, text, as string) string {
	t.Helper()
	dir, name := hashed(as)
	require.NoError(t, os.MkdirAll(v.in(dir), 0o755))
	write(t, v.in(dir+"/"+name+"123"), text)
	require.NoError(t, os.Rename(v.in(dir+"/"+name+"123"), v.in(dir+"/"+name)))
	return v.in(dir + "/" + name)
}

func inodeNumber(t testing.TB, path string) (ino uint64, links uint64) {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st))
	return st.Ino, uint64(st.Nlink)
}

func TestEqualContentIsOneInodeInAllViews(t *testing.T) {
	views, _ := mountStore(t, 2)
	var inos []uint64
	for _, v := range views {
		f := v.put(t, "module.exports = 1\n", "module.exports = 1\n")
		require.NoError(t, os.Mkdir(v.in("node_modules"), 0o755))
		for _, name := range []string{"node_modules/one.js", "node_modules/two.js"} {
			require.NoError(t, os.Link(f, v.in(name)))
			ino, links := inodeNumber(t, v.in(name))
			require.GreaterOrEqual(t, links, uint64(3))
			inos = append(inos, ino)
			require.Equal(t, "module.exports = 1\n", content(t, v.in(name)))
		}
		require.Equal(t, []string{"node_modules"}, names(t, v.mnt), "the store is not listed")
		require.Equal(t, []string{"node_modules"}, names(t, v.back), "nor in the tree")
	}
	for _, ino := range inos {
		require.Equal(t, inos[0], ino)
	}
	raw, _ := inodeNumber(t, views[1].raw("node_modules/one.js"))
	require.Equal(t, inos[0], raw)
}

// Without a link an installer copies.
func TestNothingIsLinkedIntoATreeOnAnotherMount(t *testing.T) {
	views, store := mountStoreOver(t, 1, func() string { return overlayDir(t) })
	v, before := views[0], dump(t, store)
	f := v.put(t, "text\n", "text\n")
	require.NoError(t, os.Mkdir(v.in("node_modules"), 0o755))
	require.ErrorIs(t, os.Link(f, v.in("node_modules/x.js")), syscall.EXDEV)
	require.Empty(t, names(t, v.in("node_modules")))
	require.Equal(t, before, dump(t, store), "content that no tree can have is not stored")
	write(t, f, "changed")
	require.Equal(t, "changed", content(t, f))
}

func TestAChangeBreaksALinkOffFirst(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, p string) error{
		"write":    func(t *testing.T, p string) error { return os.WriteFile(p, []byte("mine"), 0o644) },
		"append":   func(t *testing.T, p string) error { appendTo(t, p, "mine"); return nil },
		"truncate": func(_ *testing.T, p string) error { return os.Truncate(p, 1) },
		"chmod":    func(_ *testing.T, p string) error { return os.Chmod(p, 0o755) },
		"chown":    func(_ *testing.T, p string) error { return os.Chown(p, 12, 12) },
		"utimes":   func(_ *testing.T, p string) error { return os.Chtimes(p, time.Unix(1, 0), time.Unix(2, 0)) },
		"xattr":    func(_ *testing.T, p string) error { return unix.Setxattr(p, "user.x", []byte("y"), 0) },
		"fallocate": func(t *testing.T, p string) error {
			return withFile(t, p, func(fd int) error { return unix.Fallocate(fd, 0, 0, 8192) })
		},
		"mmap": func(t *testing.T, p string) error {
			return withFile(t, p, func(fd int) error {
				b, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
				require.NoError(t, err)
				require.NoError(t, unix.Madvise(b, unix.MADV_POPULATE_WRITE))
				copy(b, "MINE")
				// munmap would write it back with this process's address space
				// locked, which the server, in the same process, may need.
				require.NoError(t, unix.Msync(b, unix.MS_SYNC))
				return unix.Munmap(b)
			})
		},
		"rename away and write": func(t *testing.T, p string) error {
			require.NoError(t, os.Rename(p, p+".old"))
			defer func() { require.NoError(t, os.Rename(p+".old", p)) }()
			return os.WriteFile(p+".old", []byte("mine"), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			const text = "shared text\n"
			views, _ := mountStore(t, 2)
			for _, v := range views {
				f := v.put(t, text, text)
				require.NoError(t, os.Mkdir(v.in("node_modules"), 0o755))
				require.NoError(t, os.Link(f, v.in("node_modules/x.js")))
				require.NoError(t, os.Link(f, v.in("node_modules/y.js")))
			}
			a, b := views[0], views[1]
			reader, err := os.Open(a.in("node_modules/x.js"))
			require.NoError(t, err)
			defer reader.Close()
			before, _ := inodeNumber(t, b.in("node_modules/x.js"))
			var was unix.Stat_t
			require.NoError(t, unix.Stat(b.in("node_modules/x.js"), &was))
			require.NoError(t, change(t, a.in("node_modules/x.js")))
			mine, links := inodeNumber(t, a.in("node_modules/x.js"))
			require.NotEqual(t, before, mine)
			require.Equal(t, uint64(1), links)
			for _, p := range []string{b.in("node_modules/x.js"), b.in("node_modules/y.js"), a.in("node_modules/y.js"), b.raw("node_modules/x.js")} {
				require.Equal(t, text, content(t, p))
				var st unix.Stat_t
				require.NoError(t, unix.Stat(p, &st))
				require.Equal(t, [4]any{was.Ino, was.Mode, was.Uid, was.Mtim}, [4]any{st.Ino, st.Mode, st.Uid, st.Mtim})
			}
			got := make([]byte, 16<<10)
			n, err := reader.ReadAt(got, 0)
			require.ErrorContains(t, err, "EOF")
			require.Equal(t, content(t, a.in("node_modules/x.js")), string(got[:n]), "a reader of the same name sees the change")
		})
	}
}

func withFile(t *testing.T, path string, f func(fd int) error) error {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	return f(int(file.Fd()))
}

func TestWhatIsSoAlreadyCostsNoCopy(t *testing.T) {
	views, _ := mountStore(t, 1)
	v := views[0]
	f := v.put(t, "x", "x")
	require.NoError(t, os.Link(f, v.in("x")))
	before, _ := inodeNumber(t, v.in("x"))
	require.NoError(t, os.Chmod(v.in("x"), 0o644))
	require.NoError(t, os.Chown(v.in("x"), 0, 0))
	require.NoError(t, os.Rename(v.in("x"), v.in("y")))
	after, _ := inodeNumber(t, v.in("y"))
	require.Equal(t, before, after)
	require.NoError(t, os.Remove(v.in("y")))
	require.Equal(t, "x", content(t, f))
}

func TestContentThatIsNotWhatItsNameSaysIsNotShared(t *testing.T) {
	views, store := mountStore(t, 2)
	evil, good := views[0], views[1]
	f := evil.put(t, "evil", "good")
	require.ErrorIs(t, os.Link(f, evil.in("x")), syscall.EXDEV)
	require.Equal(t, "evil", content(t, f), "its own file is left alone")
	g := good.put(t, "good", "good")
	require.NoError(t, os.Link(g, good.in("x")))
	require.Equal(t, "good", content(t, good.in("x")))
	require.Equal(t, "evil", content(t, f))

	// Not even through what was shared before: a link in the private store is
	// broken off like any other.
	h := evil.put(t, "fine", "fine")
	require.NoError(t, os.Link(h, evil.in("fine")))
	w, err := os.OpenFile(h, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = w.WriteString("EVIL")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	k := good.put(t, "fine", "fine")
	require.NoError(t, os.Link(k, good.in("fine")))
	require.Equal(t, "fine", content(t, good.in("fine")))
	require.Equal(t, "fine", content(t, evil.in("fine")))
	require.Equal(t, "EVIL", content(t, h))
	// Files of the tree do not get into the store, nor move between the two.
	write(t, evil.in("plain"), "plain")
	dir, name := hashed("plain")
	require.NoError(t, os.MkdirAll(evil.in(dir), 0o755))
	require.ErrorIs(t, os.Link(evil.in("plain"), evil.in(dir+"/"+name)), syscall.EXDEV)
	require.ErrorIs(t, os.Rename(evil.in("plain"), evil.in(dir+"/"+name)), syscall.EXDEV)

	n, err := shared.Sweep(t.Context(), store)
	require.NoError(t, err)
	require.Zero(t, n, "all of it is in use")
	for _, v := range views {
		require.NoError(t, os.RemoveAll(v.in(shared.StoreName)))
		require.NoError(t, os.RemoveAll(v.in("x")))
		require.NoError(t, os.RemoveAll(v.in("fine")))
	}
	n, err = shared.Sweep(t.Context(), store)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestAFileThatIsStillWrittenIsNotShared(t *testing.T) {
	views, _ := mountStore(t, 1)
	v := views[0]
	f := v.put(t, "text", "text")
	w, err := os.OpenFile(f, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.ErrorIs(t, os.Link(f, v.in("x")), syscall.EXDEV)
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { return os.Link(f, v.in("x")) == nil }, 20*time.Second, 10*time.Millisecond)
}

// Feature: multi-agent-workspaces, Property 16: Dependency Deduplication
func TestTwoAgentsShareExactlyEqualContent(t *testing.T) {
	views, _ := mountStore(t, 2)
	for _, v := range views {
		require.NoError(t, os.Mkdir(v.in("node_modules"), 0o755))
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-c]{0,3}`), 2, 2).Draw(rt, "contents")
		var ino [2]uint64
		var files [2]string
		for i, v := range views {
			f := v.put(t, texts[i], texts[i])
			files[i] = v.in("node_modules/f" + strconv.Itoa(n))
			require.NoError(rt, os.Link(f, files[i]))
			ino[i], _ = inodeNumber(t, files[i])
		}
		require.Equal(rt, texts[0] == texts[1], ino[0] == ino[1])
		who := rapid.IntRange(0, 1).Draw(rt, "who")
		require.NoError(rt, os.WriteFile(files[who], []byte("changed"), 0o644))
		require.Equal(rt, texts[1-who], content(t, files[1-who]))
		require.Equal(rt, "changed", content(t, files[who]))
	})
}
