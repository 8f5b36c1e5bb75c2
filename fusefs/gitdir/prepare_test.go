package gitdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The owner of the shared repository can exchange the files that an agent's part is made of. The
// shim reads them as root, and the owner gets the copy.
func TestPrepareCopiesNothingFromOutsideOfTheRepository(t *testing.T) {
	needRoot(t)
	for _, name := range []string{"config", "info/exclude"} {
		for what, exchange := range map[string]func(path, secret string) error{
			"link": func(path, secret string) error { return os.Symlink(secret, path) },
			"pipe": func(path, _ string) error { return unix.Mkfifo(path, 0o644) },
		} {
			dir := t.TempDir()
			bare, private, secret := filepath.Join(dir, "bare.git"), filepath.Join(dir, "private"), filepath.Join(dir, "secret")
			require.NoError(t, os.MkdirAll(filepath.Join(bare, "info"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(bare, "config"), []byte("[core]\n"), 0o644))
			require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
			require.NoError(t, os.RemoveAll(filepath.Join(bare, name)))
			require.NoError(t, exchange(filepath.Join(bare, name), secret))
			require.Error(t, Prepare(private, bare, "", []string{filepath.Join(bare, "objects")}, nobody, nobody), "%s %s", name, what)
			require.NoFileExists(t, filepath.Join(private, name))
		}
	}
}
