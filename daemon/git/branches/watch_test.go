package branches

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds a wait; it says nothing about speed.
const patience = 20 * time.Second

type repo struct {
	t   *testing.T
	dir string
}

func bare(t *testing.T) repo {
	r := repo{t, filepath.Join(t.TempDir(), "bare.git")}
	r.run("init", "-q", "--bare", "-b", "main", r.dir)
	r.run("--git-dir", r.dir, "update-ref", "refs/heads/main", r.commit("first"))
	return r
}

func (r repo) run(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org")
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "git %v: %s", args, out)
	return string(out[:max(len(out)-1, 0)])
}

// commit makes a commit of the empty tree.
func (r repo) commit(message string) string {
	return r.run("--git-dir", r.dir, "commit-tree", "-m", message, r.run("--git-dir", r.dir, "hash-object", "-t", "tree", "-w", "/dev/null"))
}

func (r repo) watch() *Watcher {
	w, err := OpenWatcher(r.dir)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, w.Close()) })
	return w
}

func awaitMove(t *testing.T, w *Watcher, what string) {
	t.Helper()
	select {
	case <-w.Moved():
	case <-time.After(patience):
		t.Fatalf("%s went unnoticed", what)
	}
}

// quiet empties the channel after everything so far was read: a ref that the test moves last is
// reported last.
func (r repo) quiet(w *Watcher) {
	r.t.Helper()
	time.Sleep(50 * time.Millisecond)
	select {
	case <-w.Moved():
	default:
	}
}

func TestEveryMoveOfABranchIsReported(t *testing.T) {
	r := bare(t)
	w := r.watch()
	other := r.commit("second")
	for _, c := range []struct {
		what string
		args []string
	}{
		{"a move", []string{"update-ref", "refs/heads/main", other}},
		{"a new branch in a new directory", []string{"update-ref", "refs/heads/agent/deep/one", other}},
		{"a second one there", []string{"update-ref", "refs/heads/agent/deep/two", other}},
		{"a move there", []string{"update-ref", "refs/heads/agent/deep/one", r.commit("elsewhere")}},
		{"a rename", []string{"branch", "-m", "agent/deep/two", "agent/three"}},
		{"a pack", []string{"pack-refs", "--all"}},
		{"a move of a packed branch", []string{"update-ref", "refs/heads/agent/three", r.commit("third")}},
		{"a removal", []string{"update-ref", "-d", "refs/heads/agent/three"}},
		{"another target", []string{"symbolic-ref", "HEAD", "refs/heads/agent/deep/one"}},
	} {
		r.quiet(w)
		r.run(append([]string{"--git-dir", r.dir}, c.args...)...)
		awaitMove(t, w, c.what)
	}
	require.False(t, w.Incomplete())
}

func TestOnlyMovesOfBranchesAreReported(t *testing.T) {
	r := bare(t)
	w := r.watch()
	r.run("--git-dir", r.dir, "update-ref", "refs/tags/v1", r.commit("tagged"))
	r.run("--git-dir", r.dir, "update-ref", "refs/polis/trash/a/1", r.commit("trash"))
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "refs/heads/main.lock"), nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(r.dir, "refs/heads/main.lock")))
	time.Sleep(100 * time.Millisecond)
	select {
	case <-w.Moved():
		t.Fatal("objects, tags, trash and lock files are no moves of branches")
	default:
	}
}

func TestAReplacedRepositoryAndTooManyDirectoriesAreReported(t *testing.T) {
	r := bare(t)
	w := r.watch()
	require.NoError(t, os.Rename(r.dir, r.dir+".old"))
	awaitMove(t, w, "the end of the repository")
	require.True(t, w.Incomplete())

	r = bare(t)
	for i := range maxDirs {
		require.NoError(t, os.Mkdir(filepath.Join(r.dir, "refs/heads", fmt.Sprint(i)), 0o755))
	}
	w = r.watch()
	require.True(t, w.Incomplete())
	require.LessOrEqual(t, len(w.dirs), maxDirs)

	_, err := OpenWatcher(filepath.Join(t.TempDir(), "nothing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
