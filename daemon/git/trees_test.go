package git

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The error of CheckTrees is that of the program that failed, not that the others were stopped then.
func TestTheErrorOfADamagedHistoryIsItsCause(t *testing.T) {
	r, own, run := ownStore(t)
	run("commit", "-q", "--allow-empty", "-m", "second")
	parent := run("rev-parse", "HEAD~")
	require.NoError(t, os.Remove(filepath.Join(own, parent[:2], parent[2:])))
	for range 5 {
		err := r.Own(own).CheckTrees(t.Context(), run("rev-parse", "HEAD"), run("rev-parse", "main"))
		require.ErrorContains(t, err, "git rev-list: ")
		require.NotErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrBadTree)
	}
}
