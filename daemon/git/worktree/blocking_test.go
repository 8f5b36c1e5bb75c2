package worktree

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFilesOnWhichGitBlocksAreFound, wherever it lies; and a save, a status and a diff end.
func TestFilesOnWhichGitBlocksAreFound(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	_, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	tree := w.tree("claude")
	look := func() error {
		root, err := w.lower("claude", View{})
		require.NoError(t, err)
		defer root.Close()
		return blocking(t.Context(), root)
	}
	write(t, tree+"/work", "precious")
	require.NoError(t, unix.Mkfifo(tree+"/pipe", 0o644))
	require.NoError(t, look(), "a pipe of another name does no harm")
	_, err = w.Save(t.Context(), "claude", SaveOptions{Branch: "agent/claude"})
	require.NoError(t, err, "as a control")
	for _, path := range []string{".gitignore", "a/b/.gitattributes", "odd\xff/.mailmap"} {
		at := filepath.Join(tree, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, unix.Mkfifo(at, 0o644))
		require.ErrorIs(t, look(), errBlocks, path)
		_, err = w.Save(t.Context(), "claude", SaveOptions{Branch: "agent/claude"})
		require.ErrorIs(t, err, ErrUnreadable)
		require.ErrorIs(t, err, errBlocks)
		require.NoError(t, os.Remove(at))
		require.NoError(t, look())
	}
	require.NoError(t, unix.Mkfifo(tree+"/.gitignore", 0o644))
	require.NoError(t, w.Diff(t.Context(), "claude", DiffOptions{Branch: "agent/claude", Committed: true}, os.Stderr), "what is committed can be shown")
	require.ErrorIs(t, w.Diff(t.Context(), "claude", DiffOptions{Branch: "agent/claude"}, os.Stderr), errBlocks)
	dir, err := w.MoveToTrash(t.Context(), "claude", errBlocks)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "worktree", "work"))
	require.NoDirExists(t, tree)
}

// A tracked name that is a pipe or a socket now is named in a diff, and the rest is shown.
func TestADiffNamesWhatGitCannotCompare(t *testing.T) {
	needRoot(t)
	for _, kind := range []string{"full", "layers", "changes"} {
		t.Run(kind, func(t *testing.T) {
			var w *Workspace
			if kind == "full" {
				w = up(t, spec(t, treeProject(t)))
			} else if w = listing(t); kind == "layers" {
				w.minIndex = 1 << 40
			}
			tree, err := w.Add(t.Context(), "claude", "", "")
			require.NoError(t, err)
			files := tree.Path
			if kind != "full" {
				files, err = w.attach(t.Context(), "claude")
				require.NoError(t, err)
			}
			at := func(name string) string { return filepath.Join(files, name) }
			for _, name := range []string{"a", "src/a", "lib/link"} {
				require.NoError(t, os.Remove(at(name)))
			}
			require.NoError(t, unix.Mkfifo(at("a"), 0o644))
			require.NoError(t, unix.Mknod(at("src/a"), unix.S_IFSOCK|0o644, 0))
			require.NoError(t, unix.Mkfifo(at("lib/link"), 0o644))
			require.NoError(t, unix.Mkfifo(at("untracked"), 0o644))
			write(t, at("b"), "changed\n")
			var out strings.Builder
			require.NoError(t, w.Diff(t.Context(), "claude", DiffOptions{}, &out))
			for _, want := range []string{"+changed\n", `# polis: "a" is a pipe`, `# polis: "src/a" is a pipe, a socket`, `# polis: "lib/link" is a pipe`} {
				require.Contains(t, out.String(), want)
			}
			require.NotContains(t, out.String(), "untracked", "git knows no pipes")
			out.Reset()
			require.NoError(t, w.Diff(t.Context(), "claude", DiffOptions{NameOnly: true}, &out))
			require.ElementsMatch(t, []string{"a", "b", "src/a", "lib/link"}, strings.Fields(out.String()))
		})
	}
}

// TestASaveEndsWithinItsBound although its caller has time, and counts as one that git
// cannot do.
func TestASaveEndsWithinItsBound(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	_, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	write(t, w.tree("claude")+"/work", "precious")
	w.cfg.SaveTime = time.Nanosecond
	_, err = w.Save(t.Context(), "claude", SaveOptions{Branch: "agent/claude"})
	require.ErrorIs(t, err, ErrUnreadable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Save(ctx, "claude", SaveOptions{Branch: "agent/claude"})
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnreadable, "a cancelled call is no verdict on the worktree")
	w.cfg.SaveTime = saveTime
	saved, err := w.Save(t.Context(), "claude", SaveOptions{Branch: "agent/claude"})
	require.NoError(t, err)
	require.NoError(t, saved.Partial())
}

// TestHolesAreNotFilled: a sparse file stays a file; the rest goes into the ref.
func TestHolesAreNotFilled(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	_, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	write(t, w.tree("claude")+"/work", "precious")
	write(t, w.tree("claude")+"/hole", "x")
	require.NoError(t, os.Truncate(w.tree("claude")+"/hole", 100<<30))
	require.NoError(t, os.Truncate(w.tree("claude")+"/README", 100<<30))
	var diff bytes.Buffer
	require.NoError(t, w.Diff(t.Context(), "claude", DiffOptions{Branch: "agent/claude"}, &diff))
	require.Contains(t, diff.String(), "+precious")
	require.Contains(t, diff.String(), `# polis: "hole"`)
	require.Contains(t, diff.String(), `# polis: "README"`)
	diff.Reset()
	require.NoError(t, w.Diff(t.Context(), "claude", DiffOptions{Branch: "agent/claude", NameOnly: true}, &diff))
	require.ElementsMatch(t, []string{"work", "hole", "README"}, strings.Fields(diff.String()))
	saved, err := w.Save(t.Context(), "claude", SaveOptions{Branch: "agent/claude"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"hole", "README"}, saved.Large)
	require.Error(t, saved.Partial())
	names, err := w.Internal().Line(t.Context(), "ls-tree", "--name-only", saved.Commit, "work", "hole")
	require.NoError(t, err)
	require.Equal(t, "work", names)
}
