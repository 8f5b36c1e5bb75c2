package overlayfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// BenchmarkIsDir measures what the guard of a view below an overlay asks before each removal of a file of
// the base, four directories deep, in directories that the agent has changed.
func BenchmarkIsDir(b *testing.B) {
	dir := b.TempDir()
	open := func(name string) int {
		require.NoError(b, os.MkdirAll(filepath.Join(dir, name, "a/b/c"), 0o755))
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(b, err)
		b.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	upper, lower := open("upper"), open("lower")
	require.NoError(b, os.WriteFile(filepath.Join(dir, "lower/a/b/c/file"), nil, 0o644))
	tree, err := overlayfs.NewTree(upper, lower)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, tree.Close()) })
	for b.Loop() {
		is, err := tree.IsDir("a/b/c/file")
		require.NoError(b, err)
		require.False(b, is)
	}
}
