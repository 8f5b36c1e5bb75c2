package placement

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/layout"
	"polis/daemon/store"
)

func TestChooseNamesAWorkspaceAfterItsRepository(t *testing.T) {
	reg := store.Registry{Workspaces: map[string]string{"taken": "/w/taken", "taken-2": "/w/taken-2"}}
	for _, tc := range []struct {
		req        api.UpRequest
		name, root string
	}{
		{api.UpRequest{Repo: "/home/ann/My Project.git"}, "my-project", "/w/my-project"},
		{api.UpRequest{Repo: "https://example.org/x/Shop.git/"}, "shop", "/w/shop"},
		{api.UpRequest{Repo: "git@example.org:x/shop"}, "shop", "/w/shop"},
		{api.UpRequest{Repo: "/src/taken"}, "taken-3", "/w/taken-3"},
		{api.UpRequest{Repo: "/src/..."}, "workspace", "/w/workspace"},
		{api.UpRequest{Repo: "/src/" + strings.Repeat("n", 100)}, strings.Repeat("n", 40), "/w/" + strings.Repeat("n", 40)},
		{api.UpRequest{Repo: "/src/x", Path: "/data/agents"}, "agents", "/data/agents"},
		{api.UpRequest{Path: "/w/taken"}, "taken", "/w/taken"},
	} {
		name, root, err := Choose(tc.req, reg, "/w")
		require.NoError(t, err, tc.req)
		require.Equal(t, tc.name, name, tc.req)
		require.Equal(t, layout.Workspace(tc.root), root, tc.req)
	}
	for field, req := range map[string]api.UpRequest{
		"repo":   {Repo: "relative/path"},
		"path":   {Repo: "/x", Path: "relative"},
		"path ":  {Repo: "/x", Path: "/a/../b"},
		"path  ": {Repo: "/x", Path: "/"},
		"repo ":  {},
		"repo  ": {Path: "/new/one"},
		"target": {Repo: "/x", Target: "a\x00b"},
	} {
		_, _, err := Choose(req, reg, "/w")
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), "%v", req)
		require.ErrorContains(t, err, strings.TrimSpace(field)+" = ", "%v", req)
	}
}

func TestChooseFindsTheWorkspaceOfTheSameRepositoryThroughLinks(t *testing.T) {
	dir := t.TempDir()
	project, root := filepath.Join(dir, "project"), layout.Workspace(filepath.Join(dir, "ws"))
	require.NoError(t, os.MkdirAll(project, 0o755))
	require.NoError(t, os.MkdirAll(string(root), 0o755))
	require.NoError(t, os.Symlink(project, root.Project()))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(project, link))
	name, got, err := Choose(api.UpRequest{Repo: link}, store.Registry{Workspaces: map[string]string{"mine": string(root)}}, "/w")
	require.NoError(t, err)
	require.Equal(t, "mine", name)
	require.Equal(t, root, got)
}

func TestPathsOfPolisAreRefusedAlsoThroughLinks(t *testing.T) {
	dir := t.TempDir()
	run, ws := filepath.Join(dir, "run"), layout.Workspace(filepath.Join(dir, "ws"))
	require.NoError(t, os.MkdirAll(run, 0o755))
	require.NoError(t, os.MkdirAll(ws.Dir(), 0o755))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(run, link))
	reg := store.Registry{Workspaces: map[string]string{"ws": string(ws)}}
	other := layout.Workspace(filepath.Join(dir, "other"))
	for _, local := range []string{run, filepath.Join(run, "not", "yet"), filepath.Join(link, "x"), ws.Dir()} {
		require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(CheckPaths(other, local, run, reg)), local)
	}
	require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(CheckPaths(layout.Workspace(filepath.Join(link, "ws")), "", run, reg)))
	require.NoError(t, CheckPaths(other, filepath.Join(dir, "run-not"), run, reg), "a name that only begins like it")
}

func TestAgentsNeverRunAsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: chown")
	}
	dir := t.TempDir()
	root := layout.Workspace(filepath.Join(dir, "ws"))
	own := func(name string, uid int) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(p, 0o755))
		require.NoError(t, os.Chown(p, uid, uid))
		return p
	}
	uid, gid, fallback, err := RunAs(root, own("anns", 4321), "root")
	require.NoError(t, err)
	require.Equal(t, []int{4321, 4321}, []int{uid, gid})
	require.False(t, fallback)
	roots := own("roots", 0)
	_, _, _, err = RunAs(root, roots, "root")
	require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
	uid, gid, fallback, err = RunAs(root, roots, "no-such-user-here")
	require.NoError(t, err)
	require.True(t, fallback)
	require.Equal(t, []int{FallbackID, FallbackID}, []int{uid, gid})
	uid, _, fallback, err = RunAs(root, roots, "nobody")
	require.NoError(t, err)
	require.False(t, fallback)
	require.NotZero(t, uid)
}
