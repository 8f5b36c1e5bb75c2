package worktree

import (
	"context"
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

// TestForwardReportsWhatItChanges, before it does: files, and directories that come and go.
func TestForwardReportsWhatItChanges(t *testing.T) {
	needRoot(t)
	cfg := spec(t, project(t))
	var got [][]string
	var seen []string
	var refuse error
	w := up(t, cfg)
	w.cfg.Changing = func(_ context.Context, agent string, paths []string) error {
		require.Equal(t, "claude", agent)
		got = append(got, paths)
		seen = append(seen, readTree(t, w.tree(agent))...)
		return refuse
	}
	_, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	_, err = w.Forward(t.Context(), "claude", "agent/claude")
	require.NoError(t, err)
	require.Empty(t, got, "nothing changes")
	ahead(t, w)
	refuse = errors.New("no")
	_, err = w.Forward(t.Context(), "claude", "agent/claude")
	require.ErrorContains(t, err, "no")
	require.NotContains(t, readTree(t, w.tree("claude")), "added/file", "what cannot be noted is not changed")
	refuse, got, seen = nil, nil, nil
	f, err := w.Forward(t.Context(), "claude", "agent/claude")
	require.NoError(t, err)
	require.NotEqual(t, f.From, f.To)
	require.Equal(t, [][]string{{"README", "added", "added/file"}}, got)
	require.NotContains(t, seen, "added/file")

	got = nil
	require.NoError(t, w.changing(t.Context(), "claude", f.To, f.From))
	require.Equal(t, [][]string{{"README", "added", "added/file"}}, got, "also back again")
	require.NoError(t, w.changing(t.Context(), "claude", f.To, f.To))
	require.Len(t, got, 1)
}

// readTree returns the names of the files of a tree.
func readTree(t *testing.T, dir string) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, rerr := filepath.Rel(dir, p)
			out = append(out, rel)
			return rerr
		}
		return err
	}))
	return out
}
