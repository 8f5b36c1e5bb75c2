package gitdir

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
)

// own counts what git keeps for an agent alone.
func (r *repo) own(agent string) (n int64) {
	for _, dir := range []string{filepath.Join(r.dir, agent+".private"), filepath.Join(r.bare, "worktrees", agent)} {
		require.NoError(r.t, filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error {
			n++
			return err
		}))
	}
	return n
}

// What an agent has for itself in the git directory counts as it comes and
// goes; objects and refs, which are everybody's, do not.
func TestTheAgentsOwnPartIsCounted(t *testing.T) {
	r := newRepo(t, "sha1")
	var counted atomic.Int64
	tree, m, _ := r.agent("a1", func(c *Config) { c.Counted = func(n int) { counted.Add(int64(n)) } })
	before := r.own("a1")
	for _, line := range []string{
		"echo two >>f && git add f && git commit -qm two", "git branch other2 && git tag t1",
		"git config user.name me", "echo wip >>f && git stash -q && git stash pop -q && git checkout -q f",
		"git rebase -q -i HEAD~1", "git bisect start && git bisect bad", "git bisect reset",
		"cd " + m + " && mkdir tool && touch tool/a tool/b && ln tool/a tool/c && ln -s a tool/d && mv tool/b tool/a && rm tool/c",
		"cd " + m + "/worktrees/a1 && mkdir x && touch x/y", "git gc --auto",
	} {
		r.must(tree, line)
		// Directories that are made in its part because the shared one has them.
		require.InDelta(t, r.own("a1")-before, counted.Load(), 3, line)
	}
	require.Positive(t, counted.Load())
}

func TestAFullDiskKeepsGitFromAdding(t *testing.T) {
	r := newRepo(t, "sha1")
	var full, crowded atomic.Bool
	tree, m, _ := r.agent("a1", func(c *Config) {
		c.Disk = func(op fusefs.Op) string {
			if full.Load() || crowded.Load() && op.Makes() {
				return "no room"
			}
			return ""
		}
	})
	r.must(tree, "git config a.b c && mkdir "+m+"/tool && echo x > "+m+"/tool/there")
	refused := func(what string, err error) {
		t.Helper()
		require.ErrorIs(t, err, syscall.EDQUOT, what)
		d := r.refused()[len(r.refused())-1]
		require.Equal(t, "QUOTA", d.Code)
		require.Equal(t, "no room", d.Hint)
	}
	for _, b := range []*atomic.Bool{&full, &crowded} {
		b.Store(true)
		for _, dir := range []string{"tool", "worktrees/a1"} {
			refused("create", os.WriteFile(filepath.Join(m, dir, "new"), nil, 0o644))
			refused("mkdir", os.Mkdir(filepath.Join(m, dir, "dir"), 0o755))
		}
		refused("symlink", os.Symlink("x", filepath.Join(m, "tool/link")))
		refused("fifo", syscall.Mkfifo(filepath.Join(m, "tool/fifo"), 0o644))
		refused("an object", os.WriteFile(filepath.Join(m, "objects/pack/tmp_pack_x"), nil, 0o644))
		_, err := run(t, tree, "git", "commit", "-q", "--allow-empty", "-m", "x")
		require.Error(t, err)
		err = os.WriteFile(filepath.Join(m, "tool/there"), []byte("y"), 0o644)
		if b == &full {
			refused("write", err)
		} else {
			require.NoError(t, err)
		}
		require.NoError(t, os.Rename(filepath.Join(m, "tool/there"), filepath.Join(m, "tool/moved")))
		require.NoError(t, os.Rename(filepath.Join(m, "tool/moved"), filepath.Join(m, "tool/there")))
		r.must(tree, "git status && git log -1")
		b.Store(false)
	}
	r.must(tree, "rm "+m+"/tool/there && git commit -q --allow-empty -m x")
}
