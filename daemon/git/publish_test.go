package git

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ownStore is a repository, an agent's own directory of objects, and git that
// writes to the latter.
func ownStore(t *testing.T) (r Repo, own string, run func(args ...string) string) {
	dir := t.TempDir()
	r = Repo{Runner: &Runner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}, Dir: filepath.Join(dir, "bare.git")}
	own = filepath.Join(dir, "own")
	require.NoError(t, os.MkdirAll(filepath.Join(own, "pack"), 0o755))
	tree := filepath.Join(dir, "tree")
	run = func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = tree
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
		if _, err := os.Stat(filepath.Join(tree, ".git")); err == nil {
			cmd.Env = append(cmd.Env, "GIT_OBJECT_DIRECTORY="+own, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+r.ObjectDir())
		} else {
			cmd.Dir = dir
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %v: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	run("init", "-q", "--bare", "-b", "main", r.Dir)
	first, err := r.CommitTree(t.Context(), run("-C", r.Dir, "mktree"), nil, "first", Idents{})
	require.NoError(t, err)
	require.NoError(t, r.Update(t.Context(), "refs/heads/main", first, "", "x"))
	run("-C", r.Dir, "worktree", "add", "-q", "--detach", tree, "main")
	for _, f := range []string{"a", "b", "c/d"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, f)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(tree, f), []byte(f), 0o644))
	}
	run("add", ".")
	run("commit", "-qm", "own")
	return r, own, run
}

func looseIn(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "??", "*"))
	require.NoError(t, err)
	return files
}

// However it was interrupted, publication ends with everything in the repository.
func TestPublishContinuesWhereItWasInterrupted(t *testing.T) {
	for what, before := range map[string]func(t *testing.T, r Repo, own string, run func(...string) string){
		"nothing was done": func(*testing.T, Repo, string, func(...string) string) {},
		"half was moved": func(t *testing.T, r Repo, own string, _ func(...string) string) {
			for i, f := range looseIn(t, own) {
				to := filepath.Join(r.ObjectDir(), filepath.Base(filepath.Dir(f)), filepath.Base(f))
				require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
				switch i % 3 {
				case 0:
					require.NoError(t, os.Rename(f, to))
				case 1: // another agent has made the same
					require.NoError(t, os.Link(f, to))
					old := time.Now().Add(-1000 * time.Hour)
					require.NoError(t, os.Chtimes(to, old, old))
				}
			}
		},
		"all of it is packed": func(_ *testing.T, _ Repo, _ string, run func(...string) string) { run("repack", "-adlq") },
		"some of it is packed": func(_ *testing.T, _ Repo, _ string, run func(...string) string) {
			run("update-index", "--add", "--cacheinfo", "100644,"+run("hash-object", "-w", ".git")+",staged")
			run("repack", "-adlq") // of what is staged, too
			run("rm", "-q", "--cached", "staged")
			run("commit", "-q", "--allow-empty", "-m", "loose")
		},
	} {
		t.Run(what, func(t *testing.T) {
			r, own, run := ownStore(t)
			before(t, r, own, run)
			secret := filepath.Join(filepath.Dir(own), "tree", "secret")
			require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o644))
			added := run("hash-object", "-w", secret)
			head := run("rev-parse", "HEAD")
			require.ErrorIs(t, r.Complete(t.Context(), head), ErrNotFound, "it is not published")
			_, err := r.Publish(t.Context(), own, head+"^{commit}")
			require.NoError(t, err)
			require.NoError(t, r.Complete(t.Context(), head))
			require.Len(t, looseIn(t, own), 1, "only what no ref leads to is left")
			for _, id := range []string{added, run("hash-object", ".git")} {
				require.Error(t, exec.CommandContext(t.Context(), "git", "-C", r.Dir, "cat-file", "-e", id).Run())
			}
			require.NoError(t, r.Update(t.Context(), "refs/heads/new", head, "", "x"))
			for _, f := range looseIn(t, r.ObjectDir()) {
				fi, err := os.Stat(f)
				require.NoError(t, err)
				require.Less(t, time.Since(fi.ModTime()), time.Hour, "what is published is in use")
			}
			out, err := exec.CommandContext(t.Context(), "git", "-C", r.Dir, "fsck", "--full", "--strict").CombinedOutput()
			require.NoError(t, err, "%s", out)
			n, err := r.Publish(t.Context(), own, head)
			require.NoError(t, err)
			require.Zero(t, n, "once is enough")
		})
	}
}

func TestNothingIsPublishedThatLacksSomething(t *testing.T) {
	r, own, run := ownStore(t)
	blob := run("rev-parse", "HEAD:a")
	require.NoError(t, os.Remove(filepath.Join(own, blob[:2], blob[2:])))
	before := looseIn(t, r.ObjectDir())
	_, err := r.Publish(t.Context(), own, run("rev-parse", "HEAD"))
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, before, looseIn(t, r.ObjectDir()))
}

// Git removes a directory of objects when it is empty, at any moment: git prune-packed of the
// repository's owner. What is published is there nevertheless.
func TestPublishWhileEmptyDirectoriesVanish(t *testing.T) {
	for name, moves := range map[string]bool{"moved": true, "with two names": false} {
		t.Run(name, func(t *testing.T) {
			r, own, _ := ownStore(t)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					for i := range 8 {
						_ = os.Remove(filepath.Join(r.ObjectDir(), fmt.Sprintf("f%x", i))) //nolint:errcheck // it may have an object, or not be there
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
			defer func() { close(stop); <-stopped }()
			for round := range 300 {
				var ids []string
				for i := range 8 {
					id := fmt.Sprintf("f%x%038x", i, round)
					ids = append(ids, id)
					require.NoError(t, os.MkdirAll(filepath.Join(own, id[:2]), 0o755))
					require.NoError(t, os.WriteFile(filepath.Join(own, id[:2], id[2:]), nil, 0o444))
				}
				_, err := r.take(t.Context(), r.Own(own), ids, moves)
				require.NoError(t, err)
				for _, id := range ids {
					require.NoError(t, os.Remove(filepath.Join(r.ObjectDir(), id[:2], id[2:])), "it was published")
				}
			}
		})
	}
}

// An agent can remove its objects after they were found. No ref may point to them then.
func TestNothingIsPublishedThatHasVanishedMeanwhile(t *testing.T) {
	r, own, run := ownStore(t)
	with := r.Own(own)
	ids, err := with.reach(t.Context(), true, []string{run("rev-parse", "HEAD")})
	require.NoError(t, err)
	blob := run("rev-parse", "HEAD:a")
	require.NoError(t, os.Remove(filepath.Join(own, blob[:2], blob[2:])))
	_, err = r.take(t.Context(), with, ids, true)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, blob)
}
