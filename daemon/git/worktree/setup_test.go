package worktree

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// oneSetup has the same files for every git tree.
type oneSetup struct {
	r    SetupRecord
	tree string
}

func (s *oneSetup) Claim(_ context.Context, _, _ string, claim func(SetupRecord) error) error {
	if s.r.ID == "" {
		return nil
	}
	return claim(s.r)
}

func (s *oneSetup) ClaimMade(ctx context.Context, tree string, claim func(SetupRecord) error) error {
	return s.Claim(ctx, "", tree, claim)
}

func (s *oneSetup) Tree(id string) (string, error) {
	if id != s.r.ID || s.tree == "" {
		return "", fs.ErrNotExist
	}
	return s.tree, nil
}

// setupRunOf makes the directory of a run, and mounts the base of the target there.
func setupRunOf(t *testing.T, w *Workspace) (dir, tree, merged string) {
	t.Helper()
	tree, err := w.Bare().Line(t.Context(), "rev-parse", "main^{tree}")
	require.NoError(t, err)
	dir = filepath.Join(w.layout().Setups(), "x"+setupRun)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.Chmod(w.layout().Setups(), 0o700))
	merged, _, err = w.MountSetup(t.Context(), dir, tree)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.UnmountSetup(dir)) })
	return dir, tree, merged
}

func TestSetupOutputsAreWhatGitIgnores(t *testing.T) {
	w := layeredWorkspace(t)
	dir, tree, merged := setupRunOf(t, w)
	for name, text := range map[string]string{
		"deps/.gitignore": "*\n", "deps/a/index.js": "x", // ignored by what the command wrote
		"README": "changed", "new.txt": "untracked", ".gitignore": "*\n", // it would make git ignore what agents write
		"a dir/cache/.gitignore": "*", "a dir/cache/x": "x", "a dir/kept": "x", "new/cache/.gitignore": "*", "new/kept": "x", // a directory that git shows as untracked is dropped whole
	} {
		path := filepath.Join(merged, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.NoError(t, os.Remove(filepath.Join(merged, "a dir", "with space")))
	names, err := w.SetupOutputs(t.Context(), dir, tree)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"deps/", "a dir/cache/"}, names)
	for _, name := range []string{setupMerged, setupShown} {
		there, err := overlayfs.Mounted(filepath.Join(dir, name))
		require.NoError(t, err)
		require.False(t, there, "nothing writes below any more")
	}
}

func TestTheBaseOfASetupRunIsInUse(t *testing.T) {
	w := layeredWorkspace(t)
	dir, tree, _ := setupRunOf(t, w)
	used, err := w.baseMounted(tree)
	require.NoError(t, err)
	require.True(t, used)
	removed, err := w.MaintainBases(t.Context())
	require.NoError(t, err)
	require.Empty(t, removed)
	require.NoError(t, w.DetachAll(), "a stopped polisd leaves no mount")
	used, err = w.baseMounted(tree)
	require.NoError(t, err)
	require.False(t, used)
	require.NoError(t, os.RemoveAll(dir))
	removed, err = w.MaintainBases(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{tree}, removed)
}

func TestAWorktreeHasWhatTheSetupMade(t *testing.T) {
	w := layeredWorkspace(t)
	made := filepath.Join(w.layout().Setups(), "one", "tree")
	require.NoError(t, os.MkdirAll(filepath.Join(made, "deps"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(made, "deps", "a"), []byte("made"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(made, "README"), []byte("not tracked"), 0o644))
	s := &oneSetup{r: SetupRecord{ID: "one", Outputs: []string{"deps/"}}, tree: made}
	w.cfg.Setups = s
	_, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	merged, err := w.attach(t.Context(), "ann")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(merged, "deps", "a"))
	require.NoError(t, err)
	require.Equal(t, "made", string(text))
	text, err = os.ReadFile(filepath.Join(merged, "README"))
	require.NoError(t, err)
	require.NotEqual(t, "not tracked", string(text), "a tracked file is never hidden")
	used, err := w.SetupsUsed()
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"one": {"ann"}}, used)

	// An agent's change, by whatever way, reaches nothing shared.
	require.NoError(t, os.WriteFile(filepath.Join(merged, "deps", "a"), []byte("mine"), 0o644))
	require.ErrorIs(t, unix.Rename(filepath.Join(merged, "deps", "a"), filepath.Join(made, "stolen")), unix.EXDEV)
	text, err = os.ReadFile(filepath.Join(made, "deps", "a"))
	require.NoError(t, err)
	require.Equal(t, "made", string(text))

	// Removed by hand, it is missing at the next mount; the agent's own change is whole.
	require.NoError(t, w.Detach("ann"))
	s.tree = ""
	merged, err = w.attach(t.Context(), "ann")
	require.NoError(t, err)
	text, err = os.ReadFile(filepath.Join(merged, "deps", "a"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.NoError(t, w.Remove(t.Context(), "ann"))
	used, err = w.SetupsUsed()
	require.NoError(t, err)
	require.Empty(t, used)
}
