package fdtree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/internal/need"
)

func write(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
}

func TestEverythingIsDeletedAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	tree, other := filepath.Join(dir, "tree"), filepath.Join(dir, "other", "file")
	write(t, other)
	write(t, filepath.Join(tree, "a", "b", "c"))
	write(t, filepath.Join(tree, "odd\xff\n", "\x80", strings.Repeat("n", 255)))
	require.NoError(t, os.Symlink(filepath.Dir(other), filepath.Join(tree, "link")))
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(tree, "dangling")))
	require.NoError(t, unix.Mkfifo(filepath.Join(tree, "pipe"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(tree, "dark"), 0o700))
	for i := range batch + 10 {
		write(t, filepath.Join(tree, "dark", strconv.Itoa(i)))
	}
	require.NoError(t, RemoveAll(t.Context(), tree))
	require.NoDirExists(t, tree)
	require.FileExists(t, other)
	require.NoError(t, RemoveAll(t.Context(), tree), "what is not there is no error")
	require.NoError(t, RemoveAll(t.Context(), filepath.Join(dir, "no", "such")))

	link := filepath.Join(dir, "l")
	require.NoError(t, os.Symlink("other", link))
	require.NoError(t, RemoveAll(t.Context(), link))
	require.NoFileExists(t, link)
	require.FileExists(t, other)
	for _, bad := range []string{"/", ".", "..", "a/.."} {
		require.Error(t, RemoveAll(t.Context(), bad), bad)
	}
}

// TestDeepTreesGo: deeper than PATH_MAX, than the descriptors of the process and than
// the directories that are open at once.
func TestDeepTreesGo(t *testing.T) {
	dir := t.TempDir()
	top, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	at := top
	for range 600 {
		require.NoError(t, unix.Mkdirat(at, "0123456789", 0o755))
		next, err := unix.Openat(at, "0123456789", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		if at != top {
			require.NoError(t, unix.Close(at))
		}
		at = next
	}
	f, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	require.NoError(t, errors.Join(unix.Close(f), unix.Close(at), unix.Close(top)))
	require.NoError(t, RemoveAll(t.Context(), filepath.Join(dir, "0123456789")))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "also what was moved up for it")
}

// TestAMountIsNeverEntered, neither of another file system nor of a directory of the
// same one, neither on the tree nor below; the rest goes.
func TestAMountIsNeverEntered(t *testing.T) {
	need.Root(t)
	for name, mount := range map[string]func(t *testing.T, at string) string{
		"another file system": func(t *testing.T, at string) string {
			require.NoError(t, unix.Mount("fdtree-test", at, "tmpfs", 0, "size=64k"))
			return at
		},
		"the same file system": func(t *testing.T, at string) string {
			from := t.TempDir()
			require.NoError(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
			return from
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := filepath.Join(t.TempDir(), "tree")
			at := filepath.Join(tree, "a", "mnt")
			require.NoError(t, os.MkdirAll(at, 0o755))
			keep := filepath.Join(mount(t, at), "keep")
			mounted := true
			unmount := func() {
				if mounted {
					require.NoError(t, unix.Unmount(at, unix.MNT_DETACH))
					mounted = false
				}
			}
			t.Cleanup(unmount)
			write(t, keep)
			write(t, filepath.Join(tree, "b", "goes"))
			var m *MountError
			for _, path := range []string{tree, filepath.Join(tree, "a"), at} {
				err := RemoveAll(t.Context(), path)
				require.ErrorAs(t, err, &m, path)
				require.ErrorIs(t, err, unix.EXDEV)
				require.Equal(t, at, m.Path, "the mount is named")
				require.FileExists(t, keep)
			}
			require.NoDirExists(t, filepath.Join(tree, "b"), "the rest goes")
			unmount()
			require.NoError(t, RemoveAll(t.Context(), tree))
			require.NoDirExists(t, tree)
		})
	}
	file, over := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "over")
	write(t, file)
	write(t, over)
	require.NoError(t, unix.Mount(over, file, "", unix.MS_BIND, ""))
	var m *MountError
	err := RemoveAll(t.Context(), file)
	require.NoError(t, unix.Unmount(file, unix.MNT_DETACH))
	require.ErrorAs(t, err, &m, "a file can be a mount point, too")
	require.FileExists(t, over)
}

func TestAnEndedContextEndsIt(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tree", "a"))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	require.ErrorIs(t, RemoveAll(ctx, filepath.Join(dir, "tree")), why)
	require.FileExists(t, filepath.Join(dir, "tree", "a"))
	require.NoError(t, Cleanup(filepath.Join(dir, "tree")))
	require.NoDirExists(t, filepath.Join(dir, "tree"))
}
