package placement

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/internal/need"
	"polis/internal/pinned"
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
	as, err := RunAs(root, own("anns", 4321), "root", Known{})
	require.NoError(t, err)
	require.Equal(t, As{UID: 4321, GID: 4321, Owner: 4321}, as)
	roots := own("roots", 0)
	_, err = RunAs(root, roots, "root", Known{})
	require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
	as, err = RunAs(root, roots, "no-such-user-here", Known{})
	require.NoError(t, err)
	require.Equal(t, As{UID: FallbackID, GID: FallbackID, Fallback: true}, as)
	as, err = RunAs(root, roots, "nobody", Known{})
	require.NoError(t, err)
	require.False(t, as.Fallback)
	require.NotZero(t, as.UID)
	require.Zero(t, as.Owner)
	clone, err := RunAs(root, "", "nobody", Known{})
	require.NoError(t, err)
	require.Equal(t, as.UID, int(clone.Owner), "whom a clone will belong to")
}

func TestWhoWasRecordedIsNotDerivedAgain(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	root := layout.Workspace(filepath.Join(dir, "ws"))
	require.NoError(t, os.Mkdir(string(root), 0o755))
	own := func(name string, uid int) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(p, 0o755))
		require.NoError(t, os.Chown(p, uid, uid))
		return p
	}
	nobody, err := RunAs(root, own("roots", 0), "nobody", Known{})
	require.NoError(t, err)
	theirs := own("bobs", 4322)
	rec := func(uid uint32) *pinned.Record { return &pinned.Record{Path: theirs, UID: uid, GID: uid} }
	for name, c := range map[string]struct {
		link  string
		known Known
		want  As
	}{
		"a record":                              {theirs, Known{Record: rec(4321)}, As{UID: 4321, GID: 4321, Owner: 4321}},
		"a record and a group":                  {theirs, Known{Record: rec(4321), UID: 4321, GID: 50}, As{UID: 4321, GID: 50, Owner: 4321}},
		"a record of root's":                    {theirs, Known{Record: rec(0), UID: 4321, GID: 50}, As{UID: 4321, GID: 50}},
		"a record of root's alone":              {theirs, Known{Record: rec(0)}, nobody},
		"an earlier polis, another user's":      {theirs, Known{UID: 4321, GID: 4321}, As{UID: 4321, GID: 4321, Owner: 4321}},
		"an earlier polis, the same":            {theirs, Known{UID: 4322, GID: 4322}, As{UID: 4322, GID: 4322, Owner: 4322}},
		"an earlier polis, root's now":          {filepath.Join(dir, "roots"), Known{UID: 4321, GID: 4321}, As{UID: 4321, GID: 4321, Owner: 4321}},
		"an earlier polis, root's always":       {filepath.Join(dir, "roots"), Known{UID: nobody.UID, GID: nobody.GID}, nobody},
		"an earlier polis, root's, no user now": {filepath.Join(dir, "roots"), Known{UID: FallbackID, GID: FallbackID}, As{UID: FallbackID, GID: FallbackID}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(root.Project()))
			require.NoError(t, os.Symlink(c.link, root.Project()))
			as, err := RunAs(root, "", "nobody", c.known)
			require.NoError(t, err)
			require.Equal(t, c.want, as)
		})
	}
}

func TestAGroupThatTheOwnerIsNotInIsNotUsed(t *testing.T) {
	need.Root(t)
	p := filepath.Join(t.TempDir(), "project")
	require.NoError(t, os.Mkdir(p, 0o755))
	u, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.Atoi(u.Uid)
	require.NoError(t, err)
	for gid, want := range map[int]string{0: u.Gid, 42: u.Gid} {
		require.NoError(t, os.Chown(p, uid, gid))
		as, err := RunAs(layout.Workspace(t.TempDir()), p, "root", Known{})
		require.NoError(t, err)
		require.Equal(t, want, strconv.Itoa(as.GID))
	}
}
