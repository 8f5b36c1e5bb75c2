package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
)

// A reader's worktree is a base tree with nothing above it but .git: no branch is made, and its base
// stays until it is removed. A failed one leaves nothing.
func TestAReaderHasTheBaseTreeOfACommit(t *testing.T) {
	w := layeredWorkspace(t)
	w.cfg.Shared = nil // it does not depend on the kind of other worktrees
	refs, err := w.Bare().Line(t.Context(), "for-each-ref", "--format=%(refname)")
	require.NoError(t, err)
	made, err := w.AddReader(t.Context(), "rev", "")
	require.NoError(t, err)
	require.Empty(t, made.Branch)
	require.NoError(t, made.Broken)
	again, err := w.AddReader(t.Context(), "rev", "")
	require.NoError(t, err)
	require.Equal(t, made, again)

	target, err := w.Target(t.Context())
	require.NoError(t, err)
	tip, err := w.Bare().Commit(t.Context(), git.Branch(target))
	require.NoError(t, err)
	head, err := w.Head(t.Context(), "rev")
	require.NoError(t, err)
	require.Equal(t, tip, head)
	merged, err := w.attach(t.Context(), "rev")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(merged, "README"))
	own, err := os.ReadDir(made.Path)
	require.NoError(t, err)
	require.Len(t, own, 1)
	require.Equal(t, ".git", own[0].Name())
	st, err := w.Status(t.Context(), "rev", "", View{})
	require.NoError(t, err)
	require.False(t, st.Dirty())

	_, err = w.AddReader(t.Context(), "bad", "no-such-commit")
	require.Error(t, err)
	require.NoDirExists(t, w.tree("bad"))
	require.NoDirExists(t, w.layout().Layers("bad"))

	removed, err := w.MaintainBases(t.Context())
	require.NoError(t, err)
	require.Empty(t, removed)
	require.NoError(t, w.Remove(t.Context(), "rev"))
	removed, err = w.MaintainBases(t.Context())
	require.NoError(t, err)
	require.Len(t, removed, 1)
	after, err := w.Bare().Line(t.Context(), "for-each-ref", "--format=%(refname)")
	require.NoError(t, err)
	require.Equal(t, refs, after)
}

// A worktree that is on another branch than requested is kept, until it is discarded as the hint says.
func TestAnotherBranchNeedsTheWorktreeDiscarded(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	made, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	for _, add := range []func() (Worktree, error){
		func() (Worktree, error) { return w.Add(t.Context(), "ann", "topic", "") },
		func() (Worktree, error) { return w.AddReader(t.Context(), "ann", "") },
	} {
		_, err = add()
		require.Equal(t, "polisctl discard ann saves it in the trash", api.AsError(err).Hint)
		require.NoError(t, w.Broken("ann"))
	}
	write(t, filepath.Join(made.Path, "mine"), "mine\n")
	chown(t, made.Path)
	saved, err := w.Discard(t.Context(), "ann", "")
	require.NoError(t, err)
	require.NotEmpty(t, saved.Ref)
	made, err = w.Add(t.Context(), "ann", "topic", "")
	require.NoError(t, err)
	require.Equal(t, "topic", made.Branch)
}
