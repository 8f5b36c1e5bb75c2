package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/host/acl"
)

// TestNoWorkspaceIsGivenToAnotherUser: the owner of a directory above a workspace can exchange what its path leads to.
func TestNoWorkspaceIsGivenToAnotherUser(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	w := up(t, s)
	list := func() []byte {
		buf := make([]byte, 1024)
		n, err := unix.Getxattr(w.polis(), acl.Attribute, buf)
		if err != nil {
			require.ErrorIs(t, err, unix.ENODATA)
		}
		return buf[:max(n, 0)]
	}
	closed := list()
	require.NotEmpty(t, closed)
	other := s
	other.UID, other.GID = s.UID-1, s.GID-1
	refused := func(what string, spec Spec) {
		t.Helper()
		before := list()
		_, err := Up(t.Context(), spec)
		require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(err), what)
		require.Equal(t, before, list(), what)
		if what == "the directory is another user's" {
			require.Contains(t, api.AsError(err).Hint, "setfacl --remove-all "+w.polis())
		}
	}
	refused("the directory is another user's", other)
	// As an earlier version left it.
	require.NoError(t, unix.Removexattr(w.polis(), acl.Attribute))
	require.NoError(t, os.Chmod(w.polis(), 0o755))
	refused("the repository is another user's", other)
	mine := other
	mine.Workspace = filepath.Join(t.TempDir(), "ws")
	require.NoError(t, os.Mkdir(mine.Workspace, 0o755))
	require.NoError(t, os.Symlink(w.polis(), filepath.Join(mine.Workspace, ".polis")))
	refused("a link leads to it", mine)
	_, err := Up(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, closed, list(), "its owner's again")
}

// TestWhatGitMadeIsClosed, also a clone.
func TestWhatGitMadeIsClosed(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	s.Repo = "file://" + s.Repo
	w := up(t, s)
	for _, dir := range []string{w.bareDir(), w.internalDir(), w.linkPath()} {
		fi, err := os.Lstat(dir)
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|0o700, fi.Mode(), dir)
	}
}
