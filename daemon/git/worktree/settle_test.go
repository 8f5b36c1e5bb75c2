package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestASettledIndexIsNewerThanItsFiles: the times of files have the steps of the kernel's coarse clock, so an index that
// is written as soon as a second ends can still have a time of that second. Git then reads the files.
func TestASettledIndexIsNewerThanItsFiles(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	all := func(string) bool { return true }
	for round := range 3 {
		var settled sync.WaitGroup
		for i := range 16 {
			name := fmt.Sprintf("r%da%d", round, i)
			_, err := w.Add(t.Context(), name, "", "")
			require.NoError(t, err)
			settled.Go(func() {
				if err := w.Settle(t.Context(), name, View{}, all); err != nil {
					t.Error(err)
				}
			})
		}
		settled.Wait()
		for i := range 16 {
			newest, err := w.asOld(fmt.Sprintf("r%da%d", round, i), all)
			require.NoError(t, err)
			require.Zero(t, newest, "a file of agent %d is as new as its index", i)
		}
	}
}

// TestAnIndexThatGitWritesIsNotSettled: an agent's git may run, or have died while it wrote the index.
func TestAnIndexThatGitWritesIsNotSettled(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	all := func(string) bool { return true }
	_, err := w.Add(t.Context(), "alice", "", "")
	require.NoError(t, err)
	index, lock := filepath.Join(w.admin("alice"), "index"), filepath.Join(w.admin("alice"), "index.lock")
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(index, old, old))
	require.NoError(t, os.WriteFile(lock, []byte("mine"), 0o600))
	was, err := os.Stat(index)
	require.NoError(t, err)
	require.NoError(t, w.Settle(t.Context(), "alice", View{}, all))
	now, err := os.Stat(index)
	require.NoError(t, err)
	require.True(t, os.SameFile(was, now))
	text, err := os.ReadFile(lock)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.NoError(t, os.Remove(lock))
	require.NoError(t, w.Settle(t.Context(), "alice", View{}, all))
	newest, err := w.asOld("alice", all)
	require.NoError(t, err)
	require.Zero(t, newest)
	now, err = os.Stat(index)
	require.NoError(t, err)
	require.False(t, os.SameFile(was, now), "it was settled when git had ended")
}
