package gitdir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// In a read-only git directory git reads everything that is visible, and nothing changes.
func TestAReadOnlyGitDirectory(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, m, _ := r.agent("a1", func(c *Config) { c.ReadOnly = true })
	r.must(tree, "git log -1 && git show --stat && git diff HEAD && git grep -q . HEAD && GIT_OPTIONAL_LOCKS=0 git status")
	require.Empty(t, r.refused(), "git reads without an attempt to write")
	for _, line := range []string{"git commit -q --allow-empty -m x", "git tag t1", "git branch b1", "git checkout -q -b b1", "git update-ref refs/heads/b1 HEAD",
		"echo never before | git hash-object -w --stdin", "git config a.b c", "git reset -q --hard"} {
		out, err := run(t, tree, "sh", "-c", line)
		require.Error(t, err, line)
		require.Contains(t, out, "Read-only file system", line)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(m, "worktrees/a1/new"), nil, 0o644), os.Mkdir(filepath.Join(m, "tool"), 0o755), os.Remove(filepath.Join(m, "worktrees/a1/HEAD")),
		os.Rename(filepath.Join(m, "worktrees/a1/HEAD"), filepath.Join(m, "worktrees/a1/x")), os.Symlink("x", filepath.Join(m, "link")), os.Chmod(filepath.Join(m, "HEAD"), 0o600),
		os.Link(filepath.Join(m, "worktrees/a1/HEAD"), filepath.Join(m, "worktrees/a1/y")),
	} {
		require.ErrorIs(t, err, syscall.EROFS)
	}
	last := r.refused()[len(r.refused())-1]
	require.Equal(t, "READ_ONLY", last.Code)
	require.NotEmpty(t, last.Hint)
}
