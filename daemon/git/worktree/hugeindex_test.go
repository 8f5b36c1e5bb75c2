package worktree

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAnIndexWithoutAnEndIsNotCopied: an agent can make its index as large as the largest sparse file. No verb of the
// host fills the disk with it, or waits for it, and its work is not lost.
func TestAnIndexWithoutAnEndIsNotCopied(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	_, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	tree := w.tree("claude")
	write(t, tree+"/work", "precious")
	require.NoError(t, os.Truncate(filepath.Join(w.bareDir(), "worktrees", "claude", "index"), 1<<40))
	began := time.Now()
	_, err = w.Save(t.Context(), "claude", SaveOptions{Branch: "agent/claude"})
	require.ErrorIs(t, err, ErrUnreadable)
	require.ErrorContains(t, err, "index has more than")
	for _, opt := range []DiffOptions{{Branch: "agent/claude"}, {Branch: "agent/claude", NameOnly: true}} {
		require.ErrorContains(t, w.Diff(t.Context(), "claude", opt, io.Discard), "index has more than")
	}
	_, err = w.Uncommitted(t.Context(), "claude")
	require.Error(t, err)
	require.Less(t, time.Since(began), 30*time.Second)

	dir, err := w.MoveToTrash(t.Context(), "claude", err)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "worktree", "work"))
}
