package shim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHostsManagedSettingsStay(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, d := range []string{from, to} {
		require.NoError(t, os.Mkdir(filepath.Join(d, "managed-settings.d"), 0o755))
	}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(text), 0o600))
	}
	write("managed-settings.json", "{}")
	write("managed-settings.d"+"/10-site.json", "[]")
	write(".hidden", "x")
	write("large", string(make([]byte, maxManaged+1)))
	require.NoError(t, os.Symlink("/etc/shadow", filepath.Join(from, "link")))
	require.NoError(t, copyManaged(from, to))
	require.NoError(t, copyManaged(filepath.Join(from, "missing"), to))
	var got []string
	require.NoError(t, filepath.WalkDir(to, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, rerr := filepath.Rel(to, p)
			require.NoError(t, rerr)
			fi, ierr := d.Info()
			require.NoError(t, ierr)
			require.Equal(t, os.FileMode(0o444), fi.Mode())
			got = append(got, rel)
		}
		return err
	}))
	require.Equal(t, []string{"managed-settings.d/10-site.json", "managed-settings.json"}, got)
}
