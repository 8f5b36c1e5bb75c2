package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// The files of a worktree whose overlay is above its view are read as they are now, and never
// written below it.
func TestAttachAbove(t *testing.T) {
	w := layeredWorkspace(t)
	ctx := t.Context()
	_, err := w.Add(ctx, "ann", "agent/ann", "")
	require.NoError(t, err)
	require.NoError(t, w.Attach(ctx, "ann"))
	require.NoError(t, w.AttachAbove(ctx, "ann"))
	is, err := w.above("ann")
	require.NoError(t, err)
	require.True(t, is)
	l := w.layout()
	marked, err := os.ReadFile(l.LayersAbove("ann"))
	require.NoError(t, err)
	require.DirExists(t, string(marked))

	// What a shim mounts covers the worktree.
	require.NoError(t, overlayfs.Mount(overlayfs.Layers{Lower: []string{string(marked)}, Upper: w.tree("ann"), Work: l.LayersWork("ann"), Target: w.tree("ann")}))
	undone := false
	defer func() {
		if !undone {
			require.NoError(t, overlayfs.Unmount(w.tree("ann")))
		}
	}()
	id, err := w.baseOf("ann")
	require.NoError(t, err)
	used, err := w.baseMounted(id)
	require.NoError(t, err)
	require.True(t, used)
	for _, text := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.tree("ann"), "new"), []byte(text), 0o644))
		s, err := w.Status(ctx, "ann", "agent/ann", View{})
		require.NoError(t, err)
		require.Equal(t, 1, s.Untracked)
		dir, err := w.openMerged(ctx, "ann")
		require.NoError(t, err)
		defer dir.Close()
		root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
		require.NoError(t, err)
		got, err := root.ReadFile("new")
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.ErrorIs(t, root.WriteFile("new", nil, 0o644), unix.EROFS)
		require.NoError(t, root.Close())
	}
	require.Error(t, w.Attach(ctx, "ann"), "while it is covered")
	undone = true
	require.NoError(t, overlayfs.Unmount(w.tree("ann")))
	require.NoError(t, w.Attach(ctx, "ann"))
	is, err = w.above("ann")
	require.NoError(t, err)
	require.False(t, is)
	require.NoError(t, os.WriteFile(filepath.Join(l.LayersMerged("ann"), "new"), []byte("three"), 0o644))
}

// What the setup command made is the lowest layer, also above the view and in what polisd reads.
func TestAttachAboveSetupFiles(t *testing.T) {
	w := layeredWorkspace(t)
	made := filepath.Join(t.TempDir(), "made\nhere")
	require.NoError(t, os.MkdirAll(filepath.Join(made, "deps"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(made, "deps", "x"), []byte("made"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(made, "README"), []byte("covered by the base"), 0o644))
	w.cfg.Setups = &oneSetup{r: SetupRecord{ID: "one", Outputs: []string{"deps/"}}, tree: made}
	_, err := w.Add(t.Context(), "ann", "agent/ann", "")
	require.NoError(t, err)
	require.NoError(t, w.AttachAbove(t.Context(), "ann"))
	marked, err := os.ReadFile(w.layout().LayersAbove("ann"))
	require.NoError(t, err)
	tree, setup := SplitLower(string(marked))
	require.DirExists(t, tree)
	require.Equal(t, made, setup)
	dir, err := w.openMerged(t.Context(), "ann")
	require.NoError(t, err)
	defer dir.Close()
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	require.NoError(t, err)
	defer root.Close()
	text, err := root.ReadFile("deps/x")
	require.NoError(t, err)
	require.Equal(t, "made", string(text))
	text, err = root.ReadFile("README")
	require.NoError(t, err)
	require.NotEqual(t, "covered by the base", string(text))

	tree, setup = SplitLower("/base")
	require.Equal(t, "/base", tree)
	require.Empty(t, setup)
}
