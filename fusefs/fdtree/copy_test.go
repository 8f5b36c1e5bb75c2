package fdtree_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/fdtree"
	"polis/internal/need"
)

func copyTree(t *testing.T, ctx context.Context, c *fdtree.Copier, from, to string) error {
	t.Helper()
	src, err := os.Open(from)
	require.NoError(t, err)
	defer src.Close()
	dst, err := os.Open(to)
	require.NoError(t, err)
	defer dst.Close()
	return c.Copy(ctx, int(src.Fd()), int(dst.Fd()))
}

func TestACopyHasEverything(t *testing.T) {
	need.Root(t)
	from, to := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(from, name) }
	when := time.Unix(1_000_000_000, 123_456_789)
	require.NoError(t, os.MkdirAll(at("dir/deep"), 0o755))
	big := strings.Repeat("0123456789abcdef", 1<<16)
	for name, text := range map[string]string{"file": "text", "dir/deep/big": big, "empty": "", "odd \x01\xff\n": "odd", "skipped/in": "no", "private": "x"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o755))
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o644))
	}
	require.NoError(t, os.Link(at("file"), at("linked")))
	require.NoError(t, os.Symlink("/etc/passwd", at("symbolic")))
	require.NoError(t, unix.Mkfifo(at("pipe"), 0o640))
	require.NoError(t, unix.Mknod(at("whiteout"), unix.S_IFCHR, 0))
	require.NoError(t, unix.Mknod(at("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	require.NoError(t, os.Lchown(at("file"), 65534, 65533))
	require.NoError(t, os.Chmod(at("private"), 0o600|os.ModeSetuid))
	require.NoError(t, unix.Setxattr(at("dir"), "trusted.overlay.opaque", []byte("y"), 0))
	require.NoError(t, unix.Setxattr(at("dir"), "trusted.other", []byte("y"), 0))
	require.NoError(t, os.Chmod(at("dir"), 0o711))
	for _, name := range []string{"file", "dir"} {
		require.NoError(t, os.Chtimes(at(name), when, when))
	}

	c := &fdtree.Copier{Skip: func(path string, _ *unix.Stat_t) bool { return path == "skipped" }, Attr: func(name string) bool { return strings.HasPrefix(name, "trusted.overlay.") }}
	require.NoError(t, copyTree(t, t.Context(), c, from, to))
	copied := func(name string) string { return filepath.Join(to, name) }
	for _, name := range []string{"file", "linked", "dir/deep/big", "empty", "odd \x01\xff\n", "private", "symbolic", "pipe", "whiteout", "dir", "dir/deep"} {
		var a, b unix.Stat_t
		require.NoError(t, unix.Lstat(at(name), &a))
		require.NoError(t, unix.Lstat(copied(name), &b), name)
		require.Equal(t, []any{a.Mode, a.Uid, a.Gid, a.Mtim, a.Rdev}, []any{b.Mode, b.Uid, b.Gid, b.Mtim, b.Rdev}, name)
		require.NotEqual(t, a.Ino, b.Ino)
	}
	for _, name := range []string{"skipped", "null"} {
		_, err := os.Lstat(copied(name))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	text, err := os.ReadFile(copied("dir/deep/big"))
	require.NoError(t, err)
	require.Equal(t, big, string(text))
	target, err := os.Readlink(copied("symbolic"))
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", target)
	var value [8]byte
	n, err := unix.Getxattr(copied("dir"), "trusted.overlay.opaque", value[:])
	require.NoError(t, err)
	require.Equal(t, "y", string(value[:n]))
	_, err = unix.Getxattr(copied("dir"), "trusted.other", value[:])
	require.ErrorIs(t, err, unix.ENODATA)

	// The copies are files of their own.
	require.NoError(t, os.WriteFile(copied("file"), []byte("changed"), 0o644))
	text, err = os.ReadFile(at("file"))
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	require.ErrorIs(t, copyTree(t, t.Context(), c, from, to), unix.EEXIST, "nothing is overwritten")
}

func TestACopyHasBounds(t *testing.T) {
	from := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(from, "file"), []byte("x"), 0o644))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	require.ErrorIs(t, copyTree(t, ctx, &fdtree.Copier{}, from, t.TempDir()), os.ErrDeadlineExceeded)
	require.NoError(t, os.MkdirAll(filepath.Join(from, strings.Repeat("d/", 200)), 0o755))
	require.ErrorIs(t, copyTree(t, t.Context(), &fdtree.Copier{}, from, t.TempDir()), fdtree.ErrDeep)
}
