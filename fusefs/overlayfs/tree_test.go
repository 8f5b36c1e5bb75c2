package overlayfs_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// tree opens what the layers show without their mount.
func tree(t *testing.T, l overlayfs.Layers) *overlayfs.Tree {
	t.Helper()
	var fds [2]int
	for i, dir := range []string{l.Upper, l.Lower[0]} {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		fds[i] = fd
	}
	tr, err := overlayfs.NewTree(fds[0], fds[1])
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr
}

// walk reads every name and the content of every file of the tree.
func walk(t *testing.T, tr *overlayfs.Tree, dir string, into map[string]string) {
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

// A tree shows what the mounted overlay shows, after everything that leaves a mark in the upper
// layer.
func TestTreeIsWhatTheMountShows(t *testing.T) {
	l := layers(t)
	for _, name := range []string{"a/b/c", "a/b/d", "a/e", "f/g", "f/h/i", "j", "k/l/m/n", "o/p", "q/r", "s"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(l.Lower[0], name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], name), []byte("base "+name), 0o644))
	}
	require.NoError(t, os.Symlink("a", filepath.Join(l.Lower[0], "link")))
	require.NoError(t, overlayfs.Mount(l))
	at := func(name string) string { return filepath.Join(l.Target, name) }
	tr := tree(t, l)
	for i, change := range []func() error{
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
	} {
		require.NoError(t, change(), i)
		want, got := map[string]string{}, map[string]string{}
		require.NoError(t, filepath.WalkDir(l.Target, func(path string, e fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(l.Target, path)
			switch {
			case err != nil || rel == ".":
			case e.IsDir():
				want[rel] = "directory"
			case e.Type() == fs.ModeSymlink:
				want[rel] = "link"
			default:
				b, rerr := os.ReadFile(path)
				want[rel], err = string(b), rerr
			}
			return err
		}))
		walk(t, tr, "", got)
		require.Equal(t, want, got, "after change %d", i)
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
