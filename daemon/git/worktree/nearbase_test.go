package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// checkoutOf is the content of a commit of a project, as picture returns it.
func checkoutOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	to := filepath.Join(tempDir(t), "native")
	as(t, 0, dir, "worktree", "add", "-q", "--detach", to, "HEAD")
	defer as(t, 0, dir, "worktree", "remove", "--force", to)
	return picture(t, to)
}

// requireFiles requires that an agent's worktree is that of its project's newest commit, and that git
// shows no change in it.
func requireFiles(t *testing.T, w *Workspace, dir, agent string) {
	t.Helper()
	merged, err := w.attach(t.Context(), agent)
	require.NoError(t, err)
	require.Equal(t, checkoutOf(t, dir), picture(t, merged))
	st, err := w.Status(t.Context(), agent, "", View{})
	require.NoError(t, err)
	require.Zero(t, st.Staged+st.Unstaged+st.Untracked+st.Conflicted)
	w.minIndex = 1 << 40 // git over all files agrees
	defer func() { w.minIndex = 0 }()
	st, err = w.Status(t.Context(), agent, "", View{})
	require.NoError(t, err)
	require.Zero(t, st.Staged+st.Unstaged+st.Untracked+st.Conflicted)
}

// nearby is a workspace with an agent on the base of the first commit, and its project.
func nearby(t *testing.T) (w *Workspace, dir string) {
	t.Helper()
	w = listing(t)
	dir, err := filepath.EvalSymlinks(w.linkPath())
	require.NoError(t, err)
	_, err = w.Add(t.Context(), "first", "", "")
	require.NoError(t, err)
	return w, dir
}

// next commits everything in the project, and adds an agent at that commit. It returns its base.
func next(t *testing.T, w *Workspace, dir, agent string) string {
	t.Helper()
	as(t, 0, dir, "add", "-A")
	as(t, 0, dir, "commit", "-q", "--allow-empty", "-m", "next")
	_, err := w.Sync(t.Context())
	require.NoError(t, err)
	_, err = w.Add(t.Context(), agent, "", "")
	require.NoError(t, err)
	id, err := w.baseOf(agent)
	require.NoError(t, err)
	return id
}

func TestAnAgentOnANearCommitSharesABase(t *testing.T) {
	w, dir := nearby(t)
	first, err := w.baseOf("first")
	require.NoError(t, err)
	write(t, dir+"/a", "changed\n")
	write(t, dir+"/src/new/file", "added\n")
	require.NoError(t, os.Remove(dir+"/lib/a"))
	require.NoError(t, os.RemoveAll(dir+"/src/deep"))
	write(t, dir+"/src/deep", "a file now\n")
	require.NoError(t, os.Chmod(dir+"/lib/b", 0o644))
	require.Equal(t, first, next(t, w, dir, "second"))
	requireFiles(t, w, dir, "second")
	ids, err := w.bases.List()
	require.NoError(t, err)
	require.Equal(t, []string{first}, ids)
	_, err = os.Lstat(w.tree("second") + "/b")
	require.ErrorIs(t, err, os.ErrNotExist, "what is the same is shared")
	// The first agent sees none of it, and the base stays whole.
	merged, err := w.attach(t.Context(), "first")
	require.NoError(t, err)
	text, err := os.ReadFile(merged + "/a")
	require.NoError(t, err)
	require.Equal(t, "content of a\n", string(text))
	require.NoError(t, w.Detach("first"))
	require.NoError(t, w.Detach("second"))
	differ, err := w.bases.Check(t.Context(), first)
	require.NoError(t, err)
	require.Empty(t, differ)
	// A reader begins there too, and after the first agent is gone the base is still used.
	require.NoError(t, w.Remove(t.Context(), "first"))
	_, err = w.AddReader(t.Context(), "reader", "")
	require.NoError(t, err)
	requireFiles(t, w, dir, "reader")
	require.NoError(t, w.Remove(t.Context(), "second"))
	removed, err := w.MaintainBases(t.Context())
	require.NoError(t, err)
	require.Empty(t, removed)
}

func TestACommitThatIsNotNearHasABaseOfItsOwn(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *Workspace, dir string){
		"many files": func(t *testing.T, _ *Workspace, dir string) {
			for i := range nearPaths + 1 {
				write(t, fmt.Sprintf("%s/many/%d", dir, i), "x\n")
			}
		},
		"much content": func(t *testing.T, _ *Workspace, dir string) {
			write(t, dir+"/big", strings.Repeat("x", nearBytes+1))
		},
		"attributes": func(t *testing.T, _ *Workspace, dir string) { write(t, dir+"/src/.gitattributes", "* text\n") },
		"a removed file, and files of the setup command": func(t *testing.T, w *Workspace, dir string) {
			w.cfg.Setups = &oneSetup{r: SetupRecord{ID: "one"}, tree: tempDir(t)}
			require.NoError(t, os.Remove(dir+"/a"))
		},
		"a small base": func(t *testing.T, w *Workspace, dir string) {
			w.minIndex = 1 << 40
			write(t, dir+"/a", "changed\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := nearby(t)
			first, err := w.baseOf("first")
			require.NoError(t, err)
			change(t, w, dir)
			id := next(t, w, dir, "second")
			require.NotEqual(t, first, id)
			requireFiles(t, w, dir, "second")
			// From there on it is the nearest.
			w.minIndex = 0
			write(t, dir+"/b", "later\n")
			require.Equal(t, id, next(t, w, dir, "third"))
			requireFiles(t, w, dir, "third")
		})
	}
}

// A worktree on a near base has the files of a checkout, whatever the commits between them changed.
func TestAnyWorktreeOnANearBaseIsACheckout(t *testing.T) {
	w, dir := nearby(t)
	first, err := w.baseOf("first")
	require.NoError(t, err)
	names := []string{"a", "b", "src", "src/a", "src/deep", "src/deep/er", "src/deep/er/a", "src/x", "lib/b", "lib/in/a", "lib/link", "new", "new/a", "odd \x01\xff/new\nline", ".gitignore"}
	rapid.Check(t, func(rt *rapid.T) {
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			at := filepath.Join(dir, rapid.SampledFrom(names).Draw(rt, "path"))
			switch rapid.SampledFrom([]string{"write", "write", "remove", "link", "chmod"}).Draw(rt, "change") {
			case "write":
				_ = os.MkdirAll(filepath.Dir(at), 0o755) //nolint:errcheck // a file may be there
				overwrite(at, []byte(rapid.SampledFrom([]string{"x\n", "y\n", ""}).Draw(rt, "content")))
			case "remove":
				_ = os.RemoveAll(at) //nolint:errcheck // as above
			case "link":
				_ = os.RemoveAll(at)     //nolint:errcheck // as above
				_ = os.Symlink("to", at) //nolint:errcheck // as above
			case "chmod":
				_ = os.Chmod(at, 0o755) //nolint:errcheck // as above
			}
		}
		require.Equal(rt, first, next(t, w, dir, "agent"))
		merged, err := w.attach(t.Context(), "agent")
		require.NoError(rt, err)
		want := picture(t, dir)
		for _, name := range strings.Split(as(t, 0, dir, "ls-files", "-z", "--others", "--ignored", "--exclude-standard"), "\x00") {
			delete(want, name)
		}
		require.Equal(rt, want, picture(t, merged))
		sameAnswers(rt, w, "agent", "status", "uncommitted", "diff")
		require.NoError(rt, w.Remove(t.Context(), "agent"))
		_ = w.Bare().Delete(t.Context(), "refs/heads/agent/agent", "") //nolint:errcheck // the next one makes it
	})
}
