package daemon

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
