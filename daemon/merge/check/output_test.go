package check

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/store/layout"
	"polis/internal/need"
)

func TestALogIsReadByItsNameInTheWorkspaceOnly(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("/var/tmp", "polis-check-output")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	root := layout.Workspace(dir)
	require.NoError(t, os.MkdirAll(root.CheckLogs(), 0o700))
	const name = "20260102T030405.000006-0123456789ab.log"
	log := filepath.Join(root.CheckLogs(), name)
	require.NoError(t, os.WriteFile(log, []byte("one\ntwo\nthree\n"), 0o600))
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))

	text, size, cut, err := Output(root, 1000, "/moved/.polis/check-logs/"+name, 2, 4096)
	require.NoError(t, err, "the workspace was moved since")
	require.Equal(t, "two\nthree\n", text)
	require.EqualValues(t, 14, size)
	require.True(t, cut)

	for _, bad := range []string{"", "..", "../secret", "/etc/passwd", secret, name + "\x00", "x.log"} {
		_, err := OpenLog(root, 1000, bad)
		require.Error(t, err, "%q", bad)
	}
	_, err = OpenLog(root, 1000, "20260102T030405.000006-ffffffffffff.log")
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.Remove(log))
	require.NoError(t, os.Symlink(secret, log))
	_, err = OpenLog(root, 1000, log)
	require.Error(t, err, "a symbolic link is not followed")
	require.NoError(t, os.Remove(log))
	require.NoError(t, unix.Mkfifo(log, 0o600))
	_, err = OpenLog(root, 1000, log)
	require.Error(t, err, "a FIFO blocks nobody")

	// The owner of the project exchanges the directory.
	require.NoError(t, os.Lchown(root.Dir(), 12345, 12345))
	_, err = OpenLog(root, 1000, log)
	require.Error(t, err)
}
