package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A workspace in a directory of another user than the owner of its project.
func TestHintsAboutThePlaceOfAWorkspace(t *testing.T) {
	x := exchangersOf(startDaemon(t, options{}), false)
	theirs := x.path("root/a/project")
	x.hinted("each directory above a workspace must belong to root or to the owner of the project, and none may be a symbolic link of a user: chown it, or make a workspace elsewhere (/srv/workspaces/NAME)",
		"up", "--repo", theirs, x.path("mallory/w"))
	x.must("up", "--repo", theirs, x.path("elsewhere"))
	x.must("down", "elsewhere")
	require.NoError(t, os.Chown(x.path("mallory"), 0, 0))
	x.must("up", "--repo", theirs, x.path("mallory/w2"))
}
