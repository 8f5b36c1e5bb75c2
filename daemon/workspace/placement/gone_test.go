package placement

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

func TestAListedWorkspaceIsFoundByNameOrPath(t *testing.T) {
	reg := store.Registry{Workspaces: map[string]string{"a": "/srv/a", "/srv/a": "/srv/b"}}
	for what, want := range map[string]string{"a": "a", "/srv/a": "/srv/a", "/srv/b": "/srv/a"} {
		name, root, listed := Find(reg, what)
		require.True(t, listed, what)
		require.Equal(t, want, name)
		require.Equal(t, reg.Workspaces[want], string(root))
	}
	_, _, listed := Find(reg, "b")
	require.False(t, listed)
}

func TestOnlyAWorkspaceThatIsGoneIsForgotten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, MayForget("w", layout.Workspace(filepath.Join(dir, "w"))))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(MayForget("w", layout.Workspace(file))), "it cannot be reached")
	root := layout.Workspace(dir)
	require.NoError(t, os.MkdirAll(root.Dir(), 0o755))
	err := MayForget("w", root)
	require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(err), "it can contain work")
	require.ErrorContains(t, err, "is not gone: it is kept: its directory exists")
}
