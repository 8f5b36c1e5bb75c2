package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/host/private"
	"polis/daemon/store/layout"
	"polis/fusefs/overlayfs"
)

// checked makes the directory of a check with the files of the target.
func checked(t *testing.T, w *Workspace) (commit, dir string) {
	t.Helper()
	commit, err := w.Bare().Line(t.Context(), "rev-parse", "main")
	require.NoError(t, err)
	dir = w.layout().Check()
	require.NoError(t, private.Owned(filepath.Join(dir, checkFiles), nobody, nobody))
	require.NoError(t, w.Export(t.Context(), commit, filepath.Join(dir, checkFiles)))
	return commit, dir
}

// A check sees the files of its commit with what the setup command made, and changes only its own.
func TestACheckHasWhatTheSetupMade(t *testing.T) {
	w := layeredWorkspace(t)
	require.NoError(t, os.MkdirAll(w.layout().Check(), 0o755))
	made := filepath.Join(w.layout().Setups(), "one", "tree")
	write(t, filepath.Join(made, "deps", "a"), "made")
	write(t, filepath.Join(made, "README"), "not tracked")
	w.cfg.Setups = &oneSetup{r: SetupRecord{ID: "one", Outputs: []string{"deps/"}}, tree: made}
	commit, dir := checked(t, w)
	tracked, err := os.ReadFile(filepath.Join(dir, checkFiles, "README"))
	require.NoError(t, err)

	at, err := w.PrepareCheck(t.Context(), commit, dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, checkMerged), at)
	text, err := os.ReadFile(filepath.Join(at, "deps", "a"))
	require.NoError(t, err)
	require.Equal(t, "made", string(text))
	text, err = os.ReadFile(filepath.Join(at, "README"))
	require.NoError(t, err)
	require.Equal(t, string(tracked), string(text), "a tracked file is never hidden")
	used, err := w.SetupsUsed()
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"one": {layout.CheckUser}}, used, "it is not removed meanwhile")
	require.NoError(t, os.WriteFile(filepath.Join(at, "deps", "a"), []byte("changed"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(at, "README")))
	text, err = os.ReadFile(filepath.Join(made, "deps", "a"))
	require.NoError(t, err)
	require.Equal(t, "made", string(text))

	require.NoError(t, w.DetachAll(), "a polisd that stops leaves no mount")
	there, err := overlayfs.Mounted(at)
	require.NoError(t, err)
	require.False(t, there)
	require.NoError(t, w.EndCheck(dir), "again")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, w.EndCheck(dir), "of a check that left nothing")
	used, err = w.SetupsUsed()
	require.NoError(t, err)
	require.Empty(t, used)
}

func TestACheckWithoutFilesOfTheSetupHasItsCommit(t *testing.T) {
	w := layeredWorkspace(t)
	require.NoError(t, os.MkdirAll(w.layout().Check(), 0o755))
	commit, dir := checked(t, w)
	for name, s := range map[string]Setups{"no setup": nil, "no result": &oneSetup{}} {
		w.cfg.Setups = s
		at, err := w.PrepareCheck(t.Context(), commit, dir)
		require.NoError(t, err, name)
		require.Equal(t, filepath.Join(dir, checkFiles), at, name)
	}
	// One that was removed by hand fails the check, rather than to judge without it.
	w.cfg.Setups = &oneSetup{r: SetupRecord{ID: "one"}}
	_, err := w.PrepareCheck(t.Context(), commit, dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}
