package upper_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// What an overlay that was cut off left in its work directory is removed by the next mount, without
// a question, and the tree can be written.
func TestTheNextMountRemovesWhatWasLeft(t *testing.T) {
	s := mount(t, map[string]string{"a": "base\n", "d/in": "base\n"})
	require.NoError(t, os.Remove(s.in("d/in")))
	require.NoError(t, overlayfs.Unmount(s.at))
	work := filepath.Join(s.work, "work")
	require.NoError(t, os.MkdirAll(filepath.Join(work, "#1", "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(work, "#2"), []byte("half"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(work, "#1", "f"), []byte("half"), 0o400))
	require.NoError(t, unix.Mknod(filepath.Join(work, "#1", "w"), unix.S_IFCHR, 0))
	require.NoError(t, unix.Mknod(filepath.Join(work, "#3"), unix.S_IFCHR, 0))
	require.NoError(t, os.Link(filepath.Join(work, "#2"), filepath.Join(s.upper, "linked")))
	s.g.take()
	require.NoError(t, s.mountAbove())
	require.Subset(t, []string{"tmpfile "}, s.g.take(), "whether there are files without a name")
	left, err := os.ReadDir(work)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, os.WriteFile(s.in("a"), []byte("mine\n"), 0o644))
	require.NoError(t, os.Remove(s.in("d")))
	require.Equal(t, "half", text(t, s.in("linked")))
}

// The kernel removes no deep tree, which no overlay makes: a mount that cannot be written is an error.
func TestAnOverlayThatCannotBeWrittenIsAnError(t *testing.T) {
	s := mount(t, map[string]string{"a": "base\n"})
	require.NoError(t, overlayfs.Unmount(s.at))
	require.NoError(t, os.MkdirAll(filepath.Join(s.work, "work", "#1", "b", "c", "d", "e"), 0o755))
	err := s.mountAbove()
	require.ErrorIs(t, err, unix.EROFS)
	there, err := overlayfs.Mounted(s.at)
	require.NoError(t, err)
	require.False(t, there)
}
