package overlayfs_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/fusefs/overlayfs"
	"polis/internal/need"
)

// tree opens what the layers show without their mount.
func tree(t *testing.T, l overlayfs.Layers) *overlayfs.Tree {
	t.Helper()
	var fds []int
	for _, dir := range append([]string{l.Upper}, l.Lower...) {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		fds = append(fds, fd)
	}
	tr, err := overlayfs.NewTree(fds[0], fds[1:]...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr
}

// walk reads every name and the content of every file of the tree.
func walk(t require.TestingT, tr *overlayfs.Tree, dir string, into map[string]string) {
	entries, err := tr.List(dir)
	require.NoError(t, err, dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		is, err := tr.IsDir(path)
		require.NoError(t, err)
		require.Equal(t, e.IsDir(), is, path)
		if e.IsDir() {
			into[path] = "directory"
			walk(t, tr, path, into)
			continue
		}
		if e.Type() == fs.ModeSymlink {
			into[path] = "link"
			_, err := tr.Open(path, unix.O_RDONLY)
			require.ErrorIs(t, err, unix.ELOOP, path)
			continue
		}
		fd, err := tr.Open(path, unix.O_RDONLY)
		require.NoError(t, err, path)
		f := os.NewFile(uintptr(fd), path)
		b, err := io.ReadAll(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		into[path] = string(b)
	}
}

// mountShows is walk of a mount.
func mountShows(t require.TestingT, target string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(target, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(target, path)
		switch {
		case err != nil || rel == ".":
		case e.IsDir():
			out[rel] = "directory"
		case e.Type() == fs.ModeSymlink:
			out[rel] = "link"
		default:
			b, rerr := os.ReadFile(path)
			out[rel], err = string(b), rerr
		}
		return err
	}))
	return out
}

// second adds a lower layer, below the first: more names, and some that the first one covers.
func second(t *testing.T, l *overlayfs.Layers) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "second")
	for _, name := range []string{"a/b/more", "a/b/c", "f/h/below", "j/covered by a file", "k/l/m/deep", "modules/x/y", "modules/z", "o/below", "s/covered"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("second "+name), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "q"), []byte("covered by a directory"), 0o644))
	l.Lower = append(l.Lower, dir)
}

// A tree shows what the mounted overlay shows, after everything that leaves a mark in the upper
// layer.
func TestTreeIsWhatTheMountShows(t *testing.T) {
	t.Run("one lower layer", func(t *testing.T) { treeIsTheMount(t, layers(t)) })
	t.Run("two lower layers", func(t *testing.T) {
		l := layers(t)
		second(t, &l)
		treeIsTheMount(t, l,
			func(at func(string) string) error { return os.Rename(at("modules"), at("a/modules")) },
			func(at func(string) string) error { return os.Remove(at("a/modules/x/y")) },
			func(at func(string) string) error {
				return os.WriteFile(at("a/modules/z"), []byte("changed"), 0o644)
			},
			func(at func(string) string) error { return os.Rename(at("a/modules"), at("modules")) })
	})
}

func treeIsTheMount(t *testing.T, l overlayfs.Layers, more ...func(at func(string) string) error) {
	t.Helper()
	for _, name := range []string{"a/b/c", "a/b/d", "a/e", "f/g", "f/h/i", "j", "k/l/m/n", "o/p", "q/r", "s"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(l.Lower[0], name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], name), []byte("base "+name), 0o644))
	}
	require.NoError(t, os.Symlink("a", filepath.Join(l.Lower[0], "link")))
	require.NoError(t, overlayfs.Mount(l))
	at := func(name string) string { return filepath.Join(l.Target, name) }
	tr := tree(t, l)
	changes := []func() error{
		func() error { return nil },
		func() error { return os.Remove(at("j")) },
		func() error { return os.Mkdir(at("j"), 0o755) },
		func() error { return os.WriteFile(at("j/new"), []byte("new"), 0o644) },
		func() error { return os.RemoveAll(at("f")) },
		func() error { return os.MkdirAll(at("f/h"), 0o755) }, // opaque
		func() error { return os.Rename(at("a"), at("moved")) },
		func() error { return os.Rename(at("moved/b"), at("f/h/b")) },
		func() error { return os.WriteFile(at("f/h/b/c"), []byte("changed"), 0o644) },
		func() error { return os.Mkdir(at("a"), 0o755) },
		func() error { return os.Rename(at("k/l"), at("k/z")) },
		func() error { return os.Rename(at("k/z/m"), at("a/m")) },
		func() error { return os.Remove(at("a/m/n")) },
		func() error { return os.Remove(at("link")) },
		func() error { return os.Symlink("elsewhere", at("link2")) },
		func() error { return os.RemoveAll(at("o")) },
		func() error { return os.WriteFile(at("o"), []byte("a file where a directory was"), 0o644) },
		func() error {
			return unix.Renameat2(unix.AT_FDCWD, at("q"), unix.AT_FDCWD, at("s"), unix.RENAME_EXCHANGE)
		},
	}
	for _, c := range more {
		changes = append(changes, func() error { return c(at) })
	}
	for i, change := range changes {
		require.NoError(t, change(), i)
		got := map[string]string{}
		walk(t, tr, "", got)
		require.Equal(t, mountShows(t, l.Target), got, "after change %d", i)
	}
	for _, path := range []string{"", "..", "../lower/s", "k/", "missing/x", "o/p", "link2/x"} {
		_, err := tr.Open(path, unix.O_RDONLY)
		require.Error(t, err, path)
	}
}

// What is mounted read-only is the tree at that time, also while another overlay changes it.
func TestMountReadOnly(t *testing.T) {
	l := layers(t)
	require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], "f"), []byte("base"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], "gone"), nil, 0o644))
	require.NoError(t, overlayfs.Mount(l))
	require.NoError(t, os.WriteFile(filepath.Join(l.Target, "f"), []byte("mine"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(l.Target, "gone")))
	second := filepath.Join(filepath.Dir(l.Target), "second")
	require.NoError(t, os.Mkdir(second, 0o755))
	up, err := os.Open(l.Upper)
	require.NoError(t, err)
	defer up.Close()
	low, err := os.Open(l.Lower[0])
	require.NoError(t, err)
	defer low.Close()
	require.NoError(t, overlayfs.MountReadOnly(second, up, low))
	defer func() { require.NoError(t, overlayfs.Unmount(second)) }()
	text, err := os.ReadFile(filepath.Join(second, "f"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.NoFileExists(t, filepath.Join(second, "gone"))
	require.ErrorIs(t, os.WriteFile(filepath.Join(second, "f"), nil, 0o644), unix.EROFS)
}

// Whatever an agent does, the tree of three layers shows what the mount shows.
func TestPropertyTreeIsTheMount(t *testing.T) {
	need.Root(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(rt, err)
		l := overlayfs.Layers{Lower: []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), Target: filepath.Join(dir, "merged")}
		for _, d := range append([]string{l.Upper, l.Work, l.Target}, l.Lower...) {
			require.NoError(rt, os.Mkdir(d, 0o755))
		}
		part := rapid.SampledFrom([]string{"a", "b", "c"})
		name := rapid.Custom(func(t *rapid.T) string {
			return filepath.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "path")...)
		})
		for _, low := range l.Lower {
			for _, f := range rapid.SliceOfN(name, 0, 6).Draw(rt, "files") {
				if os.MkdirAll(filepath.Join(low, filepath.Dir(f)), 0o755) == nil {
					_ = os.WriteFile(filepath.Join(low, f), []byte(filepath.Base(low)), 0o644) // it may be a directory
				}
			}
		}
		require.NoError(rt, overlayfs.Mount(l))
		defer func() { require.NoError(rt, overlayfs.Unmount(l.Target)) }()
		var fds []int
		for _, d := range append([]string{l.Upper}, l.Lower...) {
			fd, err := unix.Open(d, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			require.NoError(rt, err)
			defer unix.Close(fd)
			fds = append(fds, fd)
		}
		tr, err := overlayfs.NewTree(fds[0], fds[1:]...)
		require.NoError(rt, err)
		defer func() { require.NoError(rt, tr.Close()) }()
		for range rapid.IntRange(1, 12).Draw(rt, "changes") {
			from, to := filepath.Join(l.Target, name.Draw(rt, "from")), filepath.Join(l.Target, name.Draw(rt, "to"))
			switch rapid.IntRange(0, 4).Draw(rt, "op") { // those that fail change nothing
			case 0:
				_ = os.RemoveAll(from)
			case 1:
				_ = os.MkdirAll(from, 0o755)
			case 2:
				_ = os.Rename(from, to)
			case 3:
				_ = os.WriteFile(from, []byte("mine"), 0o644)
			case 4:
				_ = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
			}
			got := map[string]string{}
			walk(rt, tr, "", got)
			require.Equal(rt, mountShows(rt, l.Target), got)
		}
	})
}
