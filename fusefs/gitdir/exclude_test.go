package gitdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheOwnersIgnoreRulesAreAPartOfTheAgentsOwn(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "info", "exclude")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	set := func(patterns string, changes bool) string {
		t.Helper()
		changed, err := Exclude(dir, patterns, nobody, nobody)
		require.NoError(t, err)
		require.Equal(t, changes, changed)
		b, err := os.ReadFile(file)
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		got, err := Excluded(dir)
		require.NoError(t, err)
		require.Equal(t, patterns, got)
		return string(b)
	}
	require.Empty(t, set("", false))
	require.Equal(t, excludeBegin+"*.swp\n"+excludeEnd, set("*.swp\n", true))
	set("*.swp\n", false)
	mine := "# hooks\n!keep.swp\n"
	require.NoError(t, os.WriteFile(file, []byte(mine), 0o644))
	require.Equal(t, excludeBegin+".idea/\n"+excludeEnd+mine, set(".idea/\n", true))
	require.NoError(t, os.WriteFile(file, []byte("first\n"+excludeBegin+".idea/\n"+excludeEnd+mine), 0o644))
	require.Equal(t, excludeBegin+"x\n"+excludeEnd+"first\n"+mine, set("x\n", true))
	require.Equal(t, "first\n"+mine, set("", true))

	// The agent can have anything there.
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	for _, name := range []string{"info/exclude", "info/exclude.polis-new"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink(secret, filepath.Join(dir, name)))
	}
	_, err := Exclude(dir, "y\n", nobody, nobody)
	require.Error(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "info")))
	require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(dir, "info")))
	_, err = Exclude(dir, "y\n", nobody, nobody)
	require.Error(t, err)
	b, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "secret\n", string(b))
}
