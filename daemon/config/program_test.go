package config

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program can be below the home of a user, who can put anything in place of its package.json.
func TestTheVersionOfAPackageIsReadFromAFile(t *testing.T) {
	dir := t.TempDir()
	program, manifest := filepath.Join(dir, "bin", "x"), filepath.Join(dir, "package.json")
	require.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	require.NoError(t, os.WriteFile(manifest, []byte(`{"name": "x", "version": "1.2.3"}`), 0o644))
	require.Equal(t, "1.2.3", packageVersion(program))
	for what, put := range map[string]func() error{
		"a pipe":      func() error { return syscall.Mkfifo(manifest, 0o644) },
		"a directory": func() error { return os.Mkdir(manifest, 0o755) },
		"no JSON":     func() error { return os.WriteFile(manifest, []byte("x"), 0o644) },
		"no name":     func() error { return os.WriteFile(manifest, []byte(`{"version": "1"}`), 0o644) },
	} {
		require.NoError(t, os.Remove(manifest))
		require.NoError(t, put())
		require.Empty(t, packageVersion(program), what)
	}
}
