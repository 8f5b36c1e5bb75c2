package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/git"
)

// A copy has the files, the index and the commit of the first worktree, and is a worktree of its own.
func TestACopyOfLayersIsAWorktreeOfItsOwn(t *testing.T) {
	w := listing(t)
	_, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	dir, err := w.attach(t.Context(), "ann")
	require.NoError(t, err)
	at := func(name string) string { return filepath.Join(dir, name) }
	run := func(args ...string) {
		t.Helper()
		out, err := agentGit(dir, args...)
		require.NoError(t, err, out)
	}
	write(t, at("committed"), "c\n")
	run("add", "-A")
	run("commit", "-qm", "work")
	write(t, at("a"), "staged\n")
	run("add", "a")
	write(t, at("a"), "later\n")
	require.NoError(t, os.Remove(at("b")))
	require.NoError(t, os.RemoveAll(at("src-2")))
	require.NoError(t, os.Mkdir(at("src-2"), 0o755))
	write(t, at("src-2/new"), "n\n")
	require.NoError(t, os.Rename(at("src/deep"), at("moved")))
	require.NoError(t, os.Chmod(at("lib/a"), 0o755))
	require.NoError(t, os.Symlink("../lib", at("src/link")))
	write(t, at("out/ignored"), "i\n")
	write(t, at("x.log"), "i\n")
	run("init", "-q", at("nested"))
	hole, err := os.Create(at("hole"))
	require.NoError(t, err)
	require.NoError(t, hole.Truncate(1<<40))
	require.NoError(t, hole.Close())

	c, err := w.CopyLayers(t.Context(), "ann", "bob", false)
	require.NoError(t, err)
	require.Equal(t, []string{"hole"}, c.LeftOut)
	require.Equal(t, refOf(t, w, "agent/ann"), c.Head)
	require.NoError(t, os.Remove(at("hole")))
	_, err = w.AddCopy(t.Context(), "bob", "", c.Head)
	require.NoError(t, err)
	require.NoDirExists(t, w.layout().LayersCopy("bob"))
	copied, err := w.attach(t.Context(), "bob")
	require.NoError(t, err)
	want := picture(t, dir)
	delete(want, "out/ignored")
	delete(want, "x.log")
	require.Equal(t, want, picture(t, copied))
	require.NoFileExists(t, filepath.Join(w.tree("bob"), "lib", "b"), "only the changes are copied")
	status := func(dir string) string {
		out, err := agentGit(dir, "status", "--porcelain")
		require.NoError(t, err, out)
		return out
	}
	require.Equal(t, status(dir), status(copied))
	staged, err := agentGit(copied, "show", ":a")
	require.NoError(t, err, staged)
	require.Equal(t, "staged\n", staged)
	sameAnswers(t, w, "bob", "status", "diff", "save")

	// Each has its own from now on.
	write(t, filepath.Join(copied, "a"), "bob\n")
	text, err := os.ReadFile(at("a"))
	require.NoError(t, err)
	require.Equal(t, "later\n", string(text))
	used, err := w.baseUsed(baseID(t, w, "bob"))
	require.NoError(t, err)
	require.True(t, used)
	require.NoError(t, w.Remove(t.Context(), "ann"))
	text, err = os.ReadFile(filepath.Join(copied, "moved", "er", "a"))
	require.NoError(t, err)
	require.Equal(t, "content of src/deep/er/a\n", string(text))

	// With ignored files, too; the name of an existing worktree is refused.
	c, err = w.CopyLayers(t.Context(), "bob", "cat", true)
	require.NoError(t, err)
	_, err = w.AddCopy(t.Context(), "cat", "try/cat", c.Head)
	require.NoError(t, err)
	_, err = w.CopyLayers(t.Context(), "bob", "cat", true)
	require.ErrorIs(t, err, ErrNoCopy)
	require.Equal(t, c.Head, refOf(t, w, "try/cat"))
}

// A copy that no worktree was made of, of a killed polisd or a failed fork, is removed.
func TestACopyWithoutAWorktreeIsRemoved(t *testing.T) {
	w := listing(t)
	_, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	dir, err := w.attach(t.Context(), "ann")
	require.NoError(t, err)
	write(t, filepath.Join(dir, "a"), "changed\n")
	left := func() []string {
		names, err := w.layered()
		require.NoError(t, err)
		return names
	}
	_, err = w.CopyLayers(t.Context(), "ann", "bob", false)
	require.NoError(t, err)
	require.Equal(t, []string{"ann", "bob"}, left())
	require.NoError(t, w.DropCopy(t.Context(), "bob"))
	require.Equal(t, []string{"ann"}, left())
	require.NoError(t, w.DropCopy(t.Context(), "ann"), "a worktree is no copy")
	require.Equal(t, []string{"ann"}, left())

	_, err = w.CopyLayers(t.Context(), "ann", "bob", false)
	require.NoError(t, err)
	_, err = w.AddCopy(t.Context(), "bob", "no such..branch", "HEAD")
	require.Error(t, err)
	require.NoError(t, w.Sweep(t.Context()))
	require.Equal(t, []string{"ann"}, left())
	require.NoDirExists(t, w.tree("bob"))
	_, err = w.Bare().Ref(t.Context(), git.Branch("agent/bob"))
	require.ErrorIs(t, err, git.ErrNotFound)

	// What is too deep to be copied is saved instead.
	for range 200 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
		dir = filepath.Join(dir, "d")
	}
	_, err = w.CopyLayers(t.Context(), "ann", "bob", false)
	require.ErrorIs(t, err, ErrNoCopy)
	require.Equal(t, []string{"ann"}, left())

	// A full checkout has no layers to copy.
	w.cfg.Shared = nil
	_, err = w.Add(t.Context(), "full", "", "")
	require.NoError(t, err)
	_, err = w.CopyLayers(t.Context(), "full", "bob", false)
	require.ErrorIs(t, err, ErrNoCopy)
	require.NoError(t, unix.Access(w.tree("full"), unix.F_OK))
}
