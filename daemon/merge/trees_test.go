package merge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
)

// A tree that no git checks out must not reach the target, nor its history: no clone could work
// on from there, and no forge would accept it.
func TestWhatCannotBeCheckedOutIsNotMerged(t *testing.T) {
	for name, entry := range map[string]string{
		"a git directory":            "040000 tree TREE\t.git",
		"a git directory, disguised": "040000 tree TREE\tGIT~1",
		"a way up":                   "040000 tree TREE\t..",
		"a git directory, on HFS+":   "040000 tree TREE\t.g\u200cit",
		"a linked gitmodules":        "120000 blob BLOB\t.gitmodules",
		"a long name":                "100644 blob BLOB\t" + strings.Repeat("n", 300),
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			tree := f.work(t, "mallory", "mine", "x\n")
			before := as(t, nobody, tree.Path, "rev-parse", "main")
			blob := as(t, nobody, tree.Path, "rev-parse", "HEAD:mine")
			inner := as(t, nobody, tree.Path, "rev-parse", "HEAD^{tree}")
			path := filepath.Join(tree.Path, "entries")
			text := as(t, nobody, tree.Path, "ls-tree", "HEAD") + "\n" + strings.NewReplacer("TREE", inner, "BLOB", blob).Replace(entry) + "\n"
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			bad := as(t, nobody, tree.Path, "-c", "alias.m=!git mktree < entries", "m")
			commit := as(t, nobody, tree.Path, "commit-tree", "-m", "bad", "-p", "HEAD", bad)
			// Also where a later commit has taken it away again.
			again := as(t, nobody, tree.Path, "commit-tree", "-m", "good", "-p", commit, inner)
			for _, tip := range []string{commit, again} {
				as(t, nobody, tree.Path, "update-ref", "refs/heads/agent/mallory", tip)
				_, err := f.merge(t, "mallory")
				require.Equal(t, api.CodeBadTree, api.CodeOf(err), "%v", err)
				require.ErrorIs(t, err, git.ErrBadTree)
				require.Equal(t, before, as(t, nobody, tree.Path, "rev-parse", "main"))
			}
		})
	}
}

// A tree deeper, or with longer paths, than programs and file systems can take
// is refused too, though git stores and merges it.
func TestWhatIsTooDeepIsNotMerged(t *testing.T) {
	for name, path := range map[string]string{
		"2500 directories": strings.Repeat("d/", 2500) + "f",
		"a long path":      strings.Repeat(strings.Repeat("n", 200)+"/", 20) + "f",
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			tree := f.work(t, "mallory", "mine", "x\n")
			before := as(t, nobody, tree.Path, "rev-parse", "main")
			blob := as(t, nobody, tree.Path, "rev-parse", "HEAD:mine")
			as(t, nobody, tree.Path, "update-index", "--add", "--cacheinfo", "100644,"+blob+","+path)
			as(t, nobody, tree.Path, "commit", "-qm", "deep")
			_, err := f.merge(t, "mallory")
			require.Equal(t, api.CodeBadTree, api.CodeOf(err), "%v", err)
			require.Equal(t, before, as(t, nobody, tree.Path, "rev-parse", "main"))
		})
	}
	f := setup(t)
	tree := f.work(t, "alice", "mine", "x\n")
	blob := as(t, nobody, tree.Path, "rev-parse", "HEAD:mine")
	as(t, nobody, tree.Path, "update-index", "--add", "--cacheinfo", "100644,"+blob+","+strings.Repeat("d/", 200)+strings.Repeat("n", 255))
	as(t, nobody, tree.Path, "commit", "-qm", "deep, and not too deep")
	_, err := f.merge(t, "alice")
	require.NoError(t, err)
	along, err := f.UpdateCheckout(t.Context())
	require.NoError(t, err)
	require.True(t, along.Updated, along.Reason)
}
