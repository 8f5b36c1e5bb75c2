package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

// inView runs git in an agent's worktree as it runs behind a view: what it writes
// is the agent's own.
func inView(t *testing.T, w *Workspace, agent string, args ...string) string {
	t.Helper()
	own := w.ownDir(agent)
	require.NoError(t, os.MkdirAll(filepath.Join(own, "pack"), 0o755))
	chown(t, filepath.Dir(own))
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = w.tree(agent)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_OBJECT_DIRECTORY=" + own, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + w.Bare().ObjectDir(),
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}
	cred, err := git.Credential(nobody, nobody)
	require.NoError(t, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSuffix(string(out), "\n")
}

// objects are all ids of a repository and what it borrows.
func objects(t *testing.T, r git.Repo) string {
	t.Helper()
	out, err := r.Run(t.Context(), "cat-file", "--batch-all-objects", "--batch-check")
	require.NoError(t, err)
	return string(out)
}

func TestTheTrashIsInNoObjectStoreOfAgents(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	write(t, tree.Path+"/.env", "TOKEN=added\n")
	write(t, tree.Path+"/never added", "TOKEN=untracked\n")
	chown(t, tree.Path)
	inView(t, w, "claude", "checkout", "-q", "--detach")
	inView(t, w, "claude", "commit", "-q", "--allow-empty", "-m", "detached")
	inView(t, w, "claude", "add", "-f", ".env")
	inView(t, w, "claude", "stash", "-q")
	stash := inView(t, w, "claude", "rev-parse", "stash")
	inView(t, w, "claude", "update-ref", "-d", "refs/stash")
	write(t, tree.Path+"/.env", "TOKEN=added\n")
	chown(t, tree.Path)
	inView(t, w, "claude", "add", "-f", ".env")
	secrets := map[string]string{
		"added":     inView(t, w, "claude", "rev-parse", ":.env"),
		"detached":  inView(t, w, "claude", "rev-parse", "HEAD"),
		"stashed":   stash,
		"untracked": inView(t, w, "claude", "hash-object", "never added"),
	}
	want, staged := picture(t, tree.Path), inView(t, w, "claude", "diff", "--cached", "--raw")
	status, err := w.Status(t.Context(), "claude", "agent/claude", View{})
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 1}, []int{status.Staged, status.Untracked, status.Ahead})
	var diff strings.Builder
	require.NoError(t, w.Diff(t.Context(), "claude", DiffOptions{Branch: "agent/claude"}, &diff))
	require.Contains(t, diff.String(), "TOKEN=added")

	saved, err := w.Save(t.Context(), "claude", SaveOptions{Branch: "agent/claude", Keep: []string{stash}})
	require.NoError(t, err)
	require.NotEmpty(t, saved.Ref)
	require.NoError(t, w.Remove(t.Context(), "claude"))
	require.NoError(t, os.RemoveAll(filepath.Dir(w.ownDir("claude"))), "as the daemon does")

	shared, kept := objects(t, w.Bare()), objects(t, w.Internal())
	for what, id := range secrets {
		require.NotContains(t, shared, id, what)
		require.Contains(t, kept, id, what)
	}
	as(t, nobody, w.internalDir(), "fsck", "--full", "--strict")
	as(t, nobody, w.bareDir(), "fsck", "--full", "--strict")
	fi, err := os.Stat(w.internalDir())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), fi.Mode().Perm())
	size, err := w.trashSize(t.Context(), saved.Ref)
	require.NoError(t, err)
	require.Positive(t, size)

	as(t, nobody, w.internalDir(), "repack", "-A", "-d", "-l", "-q") // as maintenance does

	back, err := w.Restore(t.Context(), saved.Ref, "", "agent/back")
	require.NoError(t, err)
	require.Equal(t, want, picture(t, back.Path))
	require.Equal(t, staged, inView(t, w, "claude", "diff", "--cached", "--raw"))
	require.Contains(t, inView(t, w, "claude", "stash", "show", "--include-untracked", "-p", stash), "TOKEN=added")
	shared = objects(t, w.Bare())
	for _, what := range []string{"added", "stashed", "untracked"} {
		require.NotContains(t, shared, secrets[what], what)
	}
	require.Contains(t, shared, secrets["detached"], "it is on a branch now")
	as(t, nobody, w.bareDir(), "fsck", "--full", "--strict")

	// What cannot be read is kept as it is, with the objects.
	dir, err := w.MoveToTrash(t.Context(), "claude", ErrUnreadable)
	require.NoError(t, err)
	id := secrets["added"]
	for _, place := range []string{filepath.Join(dir, "objects"), w.ownDir("claude")} {
		require.Contains(t, objects(t, w.Bare().Own(place)), id, "it is still in %s", place)
	}
}

// An earlier version kept the trash in the shared repository. However
// far a start came with moving it, the next one ends with all of it moved.
func TestTrashOfAnEarlierVersionMoves(t *testing.T) {
	needRoot(t)
	for _, died := range []string{"before", "refs copied", "after"} {
		t.Run(died, func(t *testing.T) {
			s := spec(t, project(t))
			w := up(t, s)
			tree, err := w.Add(t.Context(), "claude", "", "")
			require.NoError(t, err)
			write(t, tree.Path+"/secret", "TOKEN\n")
			chown(t, tree.Path)
			want := picture(t, tree.Path)
			saved, err := w.Discard(t.Context(), "claude", "")
			require.NoError(t, err)
			// As it was.
			require.NoError(t, git.Send(t.Context(), w.Internal(), w.Bare(), []string{saved.Commit}, nil))
			require.NoError(t, w.Bare().Update(t.Context(), saved.Ref, saved.Commit, "", "x"))
			if died == "before" {
				require.NoError(t, os.RemoveAll(w.internalDir()))
			}
			if died == "after" {
				require.NoError(t, w.Bare().Delete(t.Context(), saved.Ref, saved.Commit))
			}
			_, err = Up(t.Context(), Spec{Workspace: s.Workspace, UID: nobody, GID: nobody})
			require.NoError(t, err)
			refs, err := w.Bare().Refs(t.Context(), "refs/polis/trash")
			require.NoError(t, err)
			require.Empty(t, refs)
			// Nothing but the internal repository keeps it.
			as(t, nobody, w.bareDir(), "-c", "gc.reflogExpire=now", "repack", "-adq")
			as(t, nobody, w.bareDir(), "prune", "--expire=now")
			require.NotContains(t, objects(t, w.Bare()), saved.Commit)
			back, err := w.Restore(t.Context(), saved.Ref, "", "")
			require.NoError(t, err)
			require.Equal(t, want, picture(t, back.Path))
		})
	}
}
