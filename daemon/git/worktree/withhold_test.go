package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

// marks are the files that an agent's git skips.
func marks(t *testing.T, w *Workspace, agent string) (names []string) {
	t.Helper()
	out, err := w.Bare().Do(t.Context(), w.cmd(agent, View{}, "", "ls-files", "-z", "-t", "--cached"))
	require.NoError(t, err)
	for _, p := range git.SplitNUL(out) {
		if name, ok := strings.CutPrefix(p, "S "); ok {
			names = append(names, name)
		}
	}
	return names
}

// keptIndexes are the marked indexes that the only base of w keeps.
func keptIndexes(t *testing.T, w *Workspace) []string {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(w.layout().Bases(), "*", markedPrefix+"*"))
	require.NoError(t, err)
	return kept
}

// Agents on one base with the same rules get an index that git has marked once. One whose index is not
// the prepared one is marked by git, and nothing of it is kept.
func TestFilesAreMarkedOnceForABaseAndItsRules(t *testing.T) {
	w := layeredWorkspace(t)
	asked := 0
	only := func(names ...string) func(string) bool {
		return func(path string) bool {
			asked++
			for _, n := range names {
				if path == n {
					return true
				}
			}
			return false
		}
	}
	add := func(name string) {
		t.Helper()
		_, err := w.Add(t.Context(), name, "", "")
		require.NoError(t, err)
	}
	add("ann")
	all, err := w.Bare().Do(t.Context(), w.cmd("ann", View{}, "", "ls-files", "-z"))
	require.NoError(t, err)
	names := git.SplitNUL(all)
	require.GreaterOrEqual(t, len(names), 2)
	one, two := names[0], names[1]

	require.NoError(t, w.Withhold(t.Context(), "ann", View{}, "k1", only(one)))
	require.Equal(t, []string{one}, marks(t, w, "ann"))
	require.Len(t, keptIndexes(t, w), 1)
	asked = 0
	add("bob")
	require.NoError(t, w.Withhold(t.Context(), "bob", View{}, "k1", only(one)))
	require.Equal(t, []string{one}, marks(t, w, "bob"))
	require.Zero(t, asked, "no name was compared with the rules")
	out, err := w.Bare().Do(t.Context(), w.cmd("bob", View{}, "", "diff-files", "--name-only"))
	require.NoError(t, err)
	require.Empty(t, out, "the copy has the times of the files")
	add("cat")
	require.NoError(t, w.Withhold(t.Context(), "cat", View{}, "k2", only(two)))
	require.Equal(t, []string{two}, marks(t, w, "cat"), "other rules")

	t.Run("an index that has the marks is not written again", func(t *testing.T) {
		before, err := os.Stat(filepath.Join(w.admin("bob"), "index"))
		require.NoError(t, err)
		require.NoError(t, w.Withhold(t.Context(), "bob", View{}, "k1", only(one)))
		after, err := os.Stat(filepath.Join(w.admin("bob"), "index"))
		require.NoError(t, err)
		require.True(t, os.SameFile(before, after))
	})
	t.Run("an index that an agent wrote is not kept", func(t *testing.T) {
		add("eve")
		b, err := os.ReadFile(filepath.Join(w.admin("eve"), "index"))
		require.NoError(t, err)
		b[15] ^= 1 // a time of the first file: the size and the checksum are those of the prepared one
		require.NoError(t, os.WriteFile(filepath.Join(w.admin("eve"), "index"), b, 0o644))
		kept := keptIndexes(t, w)
		require.NoError(t, w.Withhold(t.Context(), "eve", View{}, "k3", only(one)))
		require.Equal(t, kept, keptIndexes(t, w))
	})
	t.Run("an index that is being written", func(t *testing.T) {
		add("dan")
		lock := filepath.Join(w.admin("dan"), "index.lock")
		require.NoError(t, os.WriteFile(lock, nil, 0o644))
		require.Error(t, w.Withhold(t.Context(), "dan", View{}, "k1", only(one)))
		require.FileExists(t, lock)
		require.NoError(t, os.Remove(lock))
		require.NoError(t, w.Withhold(t.Context(), "dan", View{}, "k1", only(one)))
		require.Equal(t, []string{one}, marks(t, w, "dan"))
	})
	t.Run("few are kept", func(t *testing.T) {
		for i := range mostMarked + 2 {
			name := fmt.Sprintf("more%d", i)
			add(name)
			require.NoError(t, w.Withhold(t.Context(), name, View{}, fmt.Sprintf("m%d", i), only(one)))
			require.Equal(t, []string{one}, marks(t, w, name))
		}
		require.Len(t, keptIndexes(t, w), mostMarked)
	})
}
