package branches

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestARefIsReadOnlyIfItIsAFileOfTheRepository(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ref"), []byte("abc\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long"), []byte(strings.Repeat("x", 2*maxRef)), 0o600))
	require.NoError(t, os.Symlink("ref", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	for name, want := range map[string]string{"ref": "abc\n", "long": strings.Repeat("x", maxRef), "link": "abc\n", "out": "", "fifo": "", "dir": "", "none": "", "../x": ""} {
		require.Equal(t, want, string(readRef(root, name)), name)
	}
}

func TestAFingerprintChangesWithTheRefs(t *testing.T) {
	dir := t.TempDir()
	head := filepath.Join(dir, "worktrees", "a", "HEAD")
	require.NoError(t, os.MkdirAll(filepath.Dir(head), 0o700))
	require.NoError(t, os.WriteFile(head, []byte("1"), 0o600))
	owned := []string{"refs/tags/t"}
	was := Fingerprint(dir, "a", "tip", owned)
	require.Equal(t, was, Fingerprint(dir, "a", "tip", owned))
	require.NotEqual(t, was, Fingerprint(dir, "a", "other", owned))
	require.NotEqual(t, was, Fingerprint(dir, "a", "tip", nil))
	require.NoError(t, os.WriteFile(head, []byte("2"), 0o600))
	moved := Fingerprint(dir, "a", "tip", owned)
	require.NotEqual(t, was, moved)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "refs", "tags"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "refs", "tags", "t"), []byte("3"), 0o600))
	require.NotEqual(t, moved, Fingerprint(dir, "a", "tip", owned))
	require.NotPanics(t, func() { Fingerprint(filepath.Join(dir, "none"), "a", "tip", owned) })
}
