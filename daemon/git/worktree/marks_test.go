package worktree

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What only an agent has counts as its work, is shown and is saved, also in files that its index marks as
// unchanged: those of the rules and those of the agent.
func TestAMarkInTheIndexHidesNoWork(t *testing.T) {
	for kind, make := range map[string]func(t *testing.T) *Workspace{
		"plain":     func(t *testing.T) *Workspace { return up(t, spec(t, project(t))) },
		"layered":   layeredWorkspace,
		"by a list": func(t *testing.T) *Workspace { w := layeredWorkspace(t); w.minIndex = 0; return w },
	} {
		for mark, set := range map[string][]string{
			"skip-worktree":    {"update-index", "--skip-worktree", "README"},
			"assume-unchanged": {"update-index", "--assume-unchanged", "README"},
			"both, unreadable": {"-c", "splitIndex.maxPercentChange=100", "update-index", "--split-index", "--skip-worktree", "README"},
		} {
			t.Run(kind+", "+mark, func(t *testing.T) {
				needRoot(t)
				w := make(t)
				tree, err := w.Add(t.Context(), "ann", "", "")
				require.NoError(t, err)
				files, err := w.attach(t.Context(), "ann")
				require.NoError(t, err)
				if files == "" {
					files = tree.Path
				}
				out, err := agentGit(tree.Path, set...)
				require.NoError(t, err, out)
				st, err := w.Status(t.Context(), "ann", "agent/ann", View{})
				require.NoError(t, err)
				require.False(t, st.Dirty(), "%v", st.Paths)

				require.NoError(t, os.WriteFile(filepath.Join(files, "README"), []byte("approved\n"), 0o644))
				st, err = w.Status(t.Context(), "ann", "agent/ann", View{})
				require.NoError(t, err)
				require.True(t, st.Dirty())
				require.Equal(t, []string{"README"}, st.Paths)
				names, err := w.Uncommitted(t.Context(), "ann")
				require.NoError(t, err)
				require.Equal(t, []string{"README"}, names)
				var shown bytes.Buffer
				require.NoError(t, w.Diff(t.Context(), "ann", DiffOptions{}, &shown))
				require.Contains(t, shown.String(), "+approved")
				saved, partial, err := w.SaveWork(t.Context(), "ann", SaveOptions{Branch: "agent/ann"})
				require.NoError(t, err)
				require.NoError(t, partial)
				require.Equal(t, []string{"README"}, saved.Paths)
				text, err := w.Internal().Line(t.Context(), "show", saved.Ref+":README")
				require.NoError(t, err)
				require.Equal(t, "approved", text)
			})
		}
	}
}

// A marked file that is missing, or whose content a commit has, is no work: so are files that rules withhold
// after the agent's git has merged other versions of them.
func TestAMarkedFileThatACommitHasIsNoWork(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	withheld := func(name string) bool { return name != "README" }
	require.NoError(t, w.Withhold(t.Context(), "ann", View{}, "k", withheld))
	name := "a dir/with space"
	clean := func() {
		t.Helper()
		st, err := w.Status(t.Context(), "ann", "agent/ann", View{})
		require.NoError(t, err)
		require.False(t, st.Dirty(), "%v", st.Paths)
	}
	clean()
	// As a merge of another version does: the entry changes, the file does not.
	id := as(t, nobody, w.tree("ann"), "hash-object", "-w", "README")
	as(t, nobody, tree.Path, "update-index", "--cacheinfo", "100644,"+id+","+name, "--skip-worktree", name)
	as(t, nobody, tree.Path, "commit", "-qm", "as of a merge")
	clean()
	require.NoError(t, os.WriteFile(filepath.Join(tree.Path, name), []byte("changed before the rule came\n"), 0o644))
	names, err := w.Uncommitted(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, []string{name}, names)
	require.NoError(t, os.Remove(filepath.Join(tree.Path, name)))
	clean()
}
