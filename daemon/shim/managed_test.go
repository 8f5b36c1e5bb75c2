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
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(text), 0o644))
	}
	write("managed-settings.json", "{}")
	write("managed-settings.d"+"/10-site.json", "[]")
	write(".hidden", "x")
	write("large", string(make([]byte, maxManaged+1)))
	write("secret", "key")
	require.NoError(t, os.Chmod(filepath.Join(from, "secret"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(from, "private"), 0o700))
	write("private/key", "key")
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

// What was left out of the copy is not replaced, unless the agents' user cannot read it on the host either.
func TestManagedSettingsThatAreNotCopiedAreNotReplaced(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("large"), make([]byte, maxManaged+1), 0o644))
	require.NoError(t, os.Symlink("large", at("link")))
	require.NoError(t, os.Mkdir(at("dir"), 0o755))
	require.NoError(t, os.WriteFile(at("secret"), nil, 0o600))
	for name, free := range map[string]bool{"large": false, "link": false, "dir": false, "secret": true, "missing": true} {
		require.Equal(t, free, replaceable(at(name)) == nil, name)
	}
}
