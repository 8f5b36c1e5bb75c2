package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

// ahead moves the target by one commit that changes, adds and removes a file.
func ahead(t *testing.T, w *Workspace) string {
	t.Helper()
	other, err := w.Add(t.Context(), "mover", "", "")
	require.NoError(t, err)
	write(t, other.Path+"/README", "of the target\n")
	write(t, other.Path+"/added/file", "new\n")
	chown(t, other.Path)
	as(t, nobody, other.Path, "add", "-A")
	as(t, nobody, other.Path, "commit", "-qm", "target")
	to, err := w.Bare().Ref(t.Context(), "refs/heads/agent/mover")
	require.NoError(t, err)
	target, err := w.Target(t.Context())
	require.NoError(t, err)
	from, err := w.Bare().Ref(t.Context(), git.Branch(target))
	require.NoError(t, err)
	require.NoError(t, w.Bare().Update(t.Context(), git.Branch(target), to, from, "test"))
	return to
}

func TestForwardMovesABranchWithoutWorkOfItsOwn(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	f, err := w.Forward(t.Context(), "claude", "agent/claude")
	require.NoError(t, err)
	require.Equal(t, f.From, f.To, "there is nothing to do")
	require.Empty(t, f.Kept)
	to := ahead(t, w)
	f, err = w.Forward(t.Context(), "claude", "agent/claude")
	require.NoError(t, err)
	require.Equal(t, to, f.To)
	require.Empty(t, as(t, nobody, tree.Path, "status", "--porcelain"))
	b, err := os.ReadFile(filepath.Join(tree.Path, "added", "file"))
	require.NoError(t, err)
	require.Equal(t, "new\n", string(b))
}

// Before a task the user's commits are fetched and the agent brought forward, in one step.
func TestSyncForwardFetchesFirst(t *testing.T) {
	needRoot(t)
	repo := project(t)
	w := up(t, spec(t, repo))
	_, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	f, unsynced, err := w.SyncForward(t.Context(), "claude", "agent/claude")
	require.NoError(t, errors.Join(unsynced, err))
	require.Equal(t, f.From, f.To, "there is nothing to do")
	require.NotEmpty(t, f.To)
	as(t, 0, repo, "commit", "-qm", "of the user", "--allow-empty")
	g, unsynced, err := w.SyncForward(t.Context(), "claude", "agent/claude")
	require.NoError(t, errors.Join(unsynced, err))
	require.Equal(t, f.To, g.From)
	require.Equal(t, strings.TrimSpace(as(t, 0, repo, "rev-parse", "HEAD")), g.To)
	// A project that cannot be read is reported, and does not keep the agent where it is.
	to := ahead(t, w)
	require.NoError(t, os.Rename(repo, repo+".moved"))
	f, unsynced, err = w.SyncForward(t.Context(), "claude", "agent/claude")
	require.NoError(t, err)
	require.Error(t, unsynced)
	require.Equal(t, to, f.To)
	_, _, err = w.SyncForward(t.Context(), "nobody", "agent/nobody")
	require.Error(t, err)
}

// TestForwardKeepsWhatIsTheAgents: nothing moves, and not a byte changes.
func TestForwardKeepsWhatIsTheAgents(t *testing.T) {
	needRoot(t)
	for name, work := range map[string]func(t *testing.T, w *Workspace, path string){
		"a change":               func(t *testing.T, _ *Workspace, path string) { write(t, path+"/README", "mine\n") },
		"an untracked file":      func(t *testing.T, _ *Workspace, path string) { write(t, path+"/mine", "mine\n") },
		"one in the way":         func(t *testing.T, _ *Workspace, path string) { write(t, path+"/added", "mine\n") },
		"a merge that continues": func(t *testing.T, w *Workspace, _ string) { write(t, w.admin("claude")+"/MERGE_HEAD", "x\n") },
		"a commit": func(t *testing.T, _ *Workspace, path string) {
			as(t, nobody, path, "commit", "-q", "--allow-empty", "-m", "mine")
		},
		"another branch": func(t *testing.T, w *Workspace, _ string) {
			write(t, w.admin("claude")+"/HEAD", "ref: refs/heads/elsewhere\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := up(t, spec(t, project(t)))
			tree, err := w.Add(t.Context(), "claude", "", "")
			require.NoError(t, err)
			to := ahead(t, w)
			work(t, w, tree.Path)
			chown(t, tree.Path)
			before := snapshot(t, tree.Path)
			f, err := w.Forward(t.Context(), "claude", "agent/claude")
			require.NoError(t, err)
			require.NotEmpty(t, f.Kept)
			require.Equal(t, f.From, f.To)
			require.Equal(t, before, snapshot(t, tree.Path))
			tip, err := w.Bare().Ref(t.Context(), "refs/heads/agent/claude")
			require.NoError(t, err)
			require.NotEqual(t, to, tip)
		})
	}
}

// TestForwardContinuesWhereACrashLeftIt: the files and the index are the target's, the
// branch is not yet.
func TestForwardContinuesWhereACrashLeftIt(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	to := ahead(t, w)
	c := w.cmd("claude", View{}, "", "read-tree", "-m", "-u", "HEAD", to)
	c.Write, c.Timeout = []string{w.tree("claude")}, checkoutTimeout
	_, err = w.Bare().Do(t.Context(), c)
	require.NoError(t, err)
	require.NotEmpty(t, as(t, nobody, tree.Path, "status", "--porcelain"))
	f, err := w.Forward(t.Context(), "claude", "agent/claude")
	require.NoError(t, err)
	require.Equal(t, to, f.To)
	require.Empty(t, as(t, nobody, tree.Path, "status", "--porcelain"))
}
