package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A workspace in a directory of another user than the owner of its project.
func TestHintsAboutThePlaceOfAWorkspace(t *testing.T) {
	x := exchangersOf(startDaemon(t, options{config: "[workspace]\nin_user_directories = true\n"}), false)
	theirs := x.path("root/a/project")
	x.hinted("each directory above a workspace must belong to root or to the owner of the project, and none may be a symbolic link of a user: chown it, or make a workspace elsewhere (/srv/workspaces/NAME)",
		"up", "--repo", theirs, x.path("mallory/w"))
	x.must("up", "--repo", theirs, x.path("elsewhere"))
	x.must("down", "elsewhere")
	require.NoError(t, os.Chown(x.path("mallory"), 0, 0))
	x.must("up", "--repo", theirs, x.path("mallory/w2"))
}

// A user who owns a directory above a workspace could exchange it while root works in it.
func TestAWorkspaceInADirectoryOfAUserIsPermittedByTheAdministrator(t *testing.T) {
	x := exchangersOf(startDaemon(t, options{}), false)
	in, key := x.path("mallory/sub/w"), "[workspace]\nin_user_directories = true\n"
	e := x.refused(api.CodeWorkspaceInvalid, "up", "--repo", x.project, in)
	require.Contains(t, e.Message, "could be exchanged by uid 4321")
	require.Contains(t, e.Hint, "polis makes it in "+x.path("state")+"; or, if you trust these users as root")
	x.hinted("give no path, and polis makes it in %s; or, if you trust these users as root, set in_user_directories = true in [workspace] of polisd.toml", "up", "--repo", x.project, in)
	require.NoDirExists(t, filepath.Dir(in))

	config := readFile(x.path("polisd.toml"))
	x.write("polisd.toml", config+key)
	x.stop()
	x.start()
	x.must("up", "--repo", x.project, in)
	x.must("agents", "add", "alice", "-w", "w", "--base", "custom")
	require.NotContains(t, x.must("status"), "in_user_directories")
	x.stop()

	// One that exists stays, and is named.
	x.write("polisd.toml", config)
	x.start()
	x.sh("alice", "echo two > two")
	require.Contains(t, x.must("status"), "w: "+in+" could be exchanged by uid 4321")
	x.must("up", "--repo", x.project, in)
	x.must("down", "--force", "w")
	x.refused(api.CodeWorkspaceInvalid, "up", "--repo", x.project, in)
}
