package excludes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/internal/need"
)

func TestTheOwnersIgnoreRulesAreAPartOfTheAgentsOwn(t *testing.T) {
	need.Root(t)
	const nobody = 65534
	dir := t.TempDir()
	file := filepath.Join(dir, "info", "exclude")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	set := func(patterns string, changes bool) string {
		t.Helper()
		changed, err := Set(dir, patterns, nobody, nobody)
		require.NoError(t, err)
		require.Equal(t, changes, changed)
		b, err := os.ReadFile(file)
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		got, err := Patterns(dir)
		require.NoError(t, err)
		require.Equal(t, patterns, got)
		return string(b)
	}
	require.Empty(t, set("", false))
	require.Equal(t, begin+"*.swp\n"+end, set("*.swp\n", true))
	set("*.swp\n", false)
	mine := "# hooks\n!keep.swp\n"
	require.NoError(t, os.WriteFile(file, []byte(mine), 0o644))
	require.Equal(t, begin+".idea/\n"+end+mine, set(".idea/\n", true))
	require.NoError(t, os.WriteFile(file, []byte("first\n"+begin+".idea/\n"+end+mine), 0o644))
	require.Equal(t, begin+"x\n"+end+"first\n"+mine, set("x\n", true))
	require.Equal(t, "first\n"+mine, set("", true))

	// The agent can have anything there.
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	for _, name := range []string{"info/exclude", "info/exclude.polis-new"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink(secret, filepath.Join(dir, name)))
	}
	_, err := Set(dir, "y\n", nobody, nobody)
	require.Error(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "info")))
	require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(dir, "info")))
	_, err = Set(dir, "y\n", nobody, nobody)
	require.Error(t, err)
	b, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "secret\n", string(b))
}
