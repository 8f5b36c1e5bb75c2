package gitdir

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tree that git does not check out is refused when it is published: git makes
// none from a worktree, only its plumbing does.
func TestTreesThatCannotBeCheckedOutAreNotPublished(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepo(t, format)
			tree, _, _ := r.agent("a1")
			blob := r.must(tree, "echo x | git hash-object -w --stdin")
			inner := r.must(tree, "git rev-parse HEAD^{tree}")
			for what, entry := range map[string]string{
				"a git directory":           "040000 tree " + inner + "\\t.git",
				"HFS+":                      "040000 tree " + inner + "\\t.g\\342\\200\\214it",
				"NTFS":                      "040000 tree " + inner + "\\tgit~1",
				"a way up":                  "040000 tree " + inner + "\\t..",
				"a long name":               "100644 blob " + blob + "\\t" + strings.Repeat("n", 256),
				"a linked gitmodules":       "120000 blob " + blob + "\\t.gitmodules",
				"a linked gitmodules, NTFS": "120000 blob " + blob + "\\tGITMOD~1",
			} {
				out, err := run(t, tree, "sh", "-ec", "printf '"+entry+"\\n' | git mktree --missing >id; git cat-file -e $(cat id)")
				require.Error(t, err, "%s: %s", what, out) // mktree itself says that all is well
				require.Contains(t, out, "Permission denied", what)
				refused := r.refused()
				require.Equal(t, "BAD_TREE", refused[len(refused)-1].Code, what)
			}
			// What git makes of odd files of a worktree is taken.
			r.must(tree, `printf x > 'a\b'; printf x > "$(printf '\001\377')"; mkdir -p d/.gitx d/git~2; : > d/.gitx/f; : > d/git~2/f; ln -s ../f d/.gitignore; git add -A; git commit -qm odd`)
			require.Equal(t, "100644 blob "+blob+"\t"+strings.Repeat("n", 255),
				r.must(tree, "t=$(printf '100644 blob "+blob+"\\t"+strings.Repeat("n", 255)+"\\n' | git mktree); git ls-tree $t"))
			r.must(r.bare, "git fsck --full")
		})
	}
}
