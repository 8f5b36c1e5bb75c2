package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/fusefs/overlayfs"
)

// mountOverBase mounts a view of an overlayfs whose lower layer fill has filled: the worktree of an agent
// that shares a base tree.
func mountOverBase(t testing.TB, fill func(lower string), opts ...func(*Config)) (v *view, lower string) {
	t.Helper()
	needFUSE(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l := overlayfs.Layers{Lower: []string{at("lower")}, Upper: at("upper"), Work: at("work"), Target: at("merged")}
	for _, d := range []string{l.Lower[0], l.Upper, l.Work, l.Target} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	fill(l.Lower[0])
	require.NoError(t, overlayfs.Mount(l))
	t.Cleanup(func() { require.NoError(t, overlayfs.Unmount(l.Target)) })
	return mountViewOf(t, l.Target, opts...), l.Lower[0]
}

// ways are how a view moves data and keeps what it knows.
var ways = map[string]func(*Config){
	"hybrid": func(*Config) {},
	"server only, nothing cached, one dir fd": func(c *Config) { c.NoPassthrough, c.NoRing, c.Timeout, c.DirDescriptors = true, true, -1, 1 },
}

// The first change of a file or directory of the base is a copy on the disk, and the same object for
// programs: a working directory, an open directory and an open file stay what they are.
func TestTheFirstChangeOfABaseFileLeavesOpenFilesAsTheyAre(t *testing.T) {
	fill := func(lower string) {
		require.NoError(t, os.MkdirAll(filepath.Join(lower, "src/deep/er"), 0o755))
		for _, name := range []string{"src/a", "src/deep/b", "src/deep/er/c"} {
			write(t, filepath.Join(lower, name), "text of the base\n")
		}
	}
	for name, opt := range ways {
		t.Run(name, func(t *testing.T) {
			v, lower := mountOverBase(t, fill, opt)
			dir, err := os.Open(v.in("src/deep"))
			require.NoError(t, err)
			defer dir.Close()
			at := int(dir.Fd())
			f, err := os.Open(v.in("src/a"))
			require.NoError(t, err)
			defer f.Close()
			before := fstatOf(t, int(f.Fd()))

			require.NoError(t, unix.Mkdirat(at, "made", 0o755), "the directory, and those above it, are copied")
			require.NoError(t, unix.Mkdirat(at, "made/more", 0o755))
			names, err := dir.Readdirnames(-1)
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"b", "er", "made"}, names)
			fd, err := unix.Openat(at, "er/c", unix.O_RDWR, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			require.NoError(t, unix.Fchmod(at, 0o700))
			require.EqualValues(t, 0o700, fstatOf(t, at).Mode&0o777)

			w, err := os.OpenFile(v.in("src/a"), os.O_RDWR|os.O_APPEND, 0)
			require.NoError(t, err)
			defer w.Close()
			_, err = w.WriteString("more\n")
			require.NoError(t, err)
			require.Equal(t, before.Ino, fstatOf(t, int(w.Fd())).Ino)
			require.EqualValues(t, len("text of the base\nmore\n"), fstatOf(t, int(f.Fd())).Size)
			require.NoError(t, f.Chmod(0o600), "through the descriptor of before")
			text := make([]byte, 100)
			n, err := f.ReadAt(text, 0)
			require.ErrorContains(t, err, "EOF")
			require.Equal(t, "text of the base\nmore\n", string(text[:n]), "the descriptor of before reads the new content")
			require.NoError(t, os.Truncate(v.in("src/a"), 4))
			require.EqualValues(t, 4, fstatOf(t, int(f.Fd())).Size)
			require.Equal(t, "text", content(t, v.in("src/a")))
			require.Equal(t, "text of the base\n", content(t, filepath.Join(lower, "src/a")))
		})
	}
}

func fstatOf(t testing.TB, fd int) (st unix.Stat_t) {
	t.Helper()
	require.NoError(t, unix.Fstat(fd, &st))
	return st
}

// A view over a base tree behaves like a plain directory with the same content: random sequences of
// calls give the same results and errnos, leave the same tree, and the base as it was.
func TestAViewOverABaseBehavesLikeAPlainDirectory(t *testing.T) {
	const worlds = 300
	fill := func(top string) {
		for i := range worlds {
			fillWorld(t, filepath.Join(top, fmt.Sprint(i)))
		}
	}
	for name, opt := range ways {
		t.Run(name, func(t *testing.T) {
			v, lower := mountOverBase(t, fill, opt)
			plain, run := t.TempDir(), 0
			rapid.Check(t, func(rt *rapid.T) {
				if run++; run == worlds { // as many as rapid needs to find a short sequence
					v, lower = mountOverBase(t, fill, opt)
					plain, run = t.TempDir(), 1
				}
				fillWorld(rt, filepath.Join(plain, fmt.Sprint(run)))
				a, b := newWorld(filepath.Join(plain, fmt.Sprint(run))), newWorld(v.in(fmt.Sprint(run)))
				defer a.close()
				defer b.close()
				for range rapid.IntRange(1, 30).Draw(rt, "steps") {
					name, step := drawStep(rt)
					ra, rb := step(a), step(b)
					require.Equal(rt, withoutDirLinks(ra), withoutDirLinks(rb), name)
				}
				look := func(dir string) map[string]string {
					tree := shape(rt, dir)
					for name, text := range tree {
						tree[name] = withoutDirLinks(text)
					}
					return tree
				}
				want := look(a.root)
				require.Equal(rt, want, look(b.root), "through the view")
				require.Equal(rt, want, look(v.raw(fmt.Sprint(run))), "on the disk")
				require.Equal(rt, look(filepath.Join(lower, "0")), look(filepath.Join(lower, fmt.Sprint(run))), "the base")
			})
		})
	}
}

// withoutDirLinks removes the link counts of directories from results: on overlayfs they are 1.
func withoutDirLinks(s string) string { return dirLinks.ReplaceAllString(s, "$1") }

var dirLinks = regexp.MustCompile(`( 4\d{4} )n\d+`)

// fillWorld makes a directory with what calls of the model find.
func fillWorld(t require.TestingT, dir string) {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "d/d"), 0o755))
	for i, name := range []string{"a", "c", "d/a", "d/d/a"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), make([]byte, i*3000), 0o644))
	}
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "l")))
}
