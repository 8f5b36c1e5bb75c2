package worktree

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

// A directory that can be read and not searched shows names that git cannot add. The rest is compared.
func TestDiffNamesWhatItsOwnerCannotReach(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	write(t, filepath.Join(tree.Path, "shut", "in", "file"), "one\n")
	write(t, filepath.Join(tree.Path, "new"), "untracked\n")
	chown(t, tree.Path)
	require.NoError(t, os.Chmod(filepath.Join(tree.Path, "shut", "in"), 0o644))
	for _, opt := range []DiffOptions{{}, {Stat: true}, {NameOnly: true}} {
		var out bytes.Buffer
		require.NoError(t, w.Diff(t.Context(), "claude", opt, &out))
		require.Contains(t, out.String(), "new")
		require.Contains(t, out.String(), "shut/in/file")
	}
}

// TestDiffEntersNoSubmodule: a filter of a repository inside the worktree, which the agent's own
// index and .gitmodules declare as a submodule.
func TestDiffEntersNoSubmodule(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	dir := tempDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	marker, script := filepath.Join(dir, "marker"), filepath.Join(dir, "evil.sh")
	write(t, script, "#!/bin/sh\necho ran >> "+marker+"\ncat\n")
	require.NoError(t, os.Chmod(script, 0o755))

	nested := filepath.Join(tree.Path, "src", "nested")
	write(t, filepath.Join(nested, "file"), "one\n")
	chown(t, tree.Path)
	as(t, nobody, nested, "init", "-q", "-b", "main")
	as(t, nobody, nested, "add", "file")
	as(t, nobody, nested, "commit", "-qm", "nested")
	head := as(t, nobody, nested, "rev-parse", "HEAD")
	as(t, nobody, tree.Path, "update-index", "--add", "--cacheinfo", "160000,"+head+",src/nested")
	write(t, filepath.Join(tree.Path, ".gitmodules"), "[submodule \"n\"]\n\tpath = src/nested\n\turl = /x\n\tignore = none\n")
	write(t, filepath.Join(nested, ".gitattributes"), "* filter=x\n")
	write(t, filepath.Join(nested, "file"), "two\n")
	write(t, filepath.Join(tree.Path, "new"), "untracked\n")
	chown(t, tree.Path)
	as(t, nobody, nested, "config", "filter.x.clean", script)
	as(t, nobody, nested, "config", "filter.x.required", "true")

	diff := func(opt DiffOptions) string {
		var out bytes.Buffer
		require.NoError(t, w.Diff(t.Context(), "claude", opt, &out))
		return out.String()
	}
	for _, opt := range []DiffOptions{{}, {Stat: true}, {NameOnly: true}, {Committed: true}} {
		out := diff(opt)
		if !opt.Committed {
			require.Contains(t, out, "new")
			require.Contains(t, out, "src/nested", "the commit of a submodule is shown")
		}
		require.NoFileExists(t, marker, "%+v", opt)
	}
	_, err = w.Status(t.Context(), "claude", "", View{})
	require.NoError(t, err)
	_, err = w.Save(t.Context(), "claude", SaveOptions{})
	require.NoError(t, err)
	require.NoFileExists(t, marker)

	// What the test plants does run: git by hand, and polis' own without its cage.
	cmd := w.cmd("claude", View{}, "", "diff", "--ignore-submodules=none")
	cmd.Config = []string{"diff.ignoreSubmodules=none"}
	_, err = w.Bare().Do(t.Context(), cmd)
	require.Error(t, err, "git was to start itself in the submodule")
	require.NoFileExists(t, marker, "the cage alone must hold")
	byHand := exec.Command("git", "status")
	byHand.Dir = tree.Path
	cred, err := git.Credential(nobody, nobody)
	require.NoError(t, err)
	byHand.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := byHand.CombinedOutput()
	require.NoError(t, err, string(out))
	require.FileExists(t, marker, fmt.Sprintf("the hook was planted where git finds it: %s", out))
}

// TestOnlyRootReachesAWorktree: running git in a worktree, or opening it in an editor, can run
// what the agent wrote there. polis itself has access.
func TestOnlyRootReachesAWorktree(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	trees := filepath.Join(s.Workspace, ".polis", "worktrees")
	require.NoError(t, os.MkdirAll(trees, 0o755)) // as an older polis left it
	_, err := Up(t.Context(), s)
	require.NoError(t, err)
	w := Open(Config{Workspace: s.Workspace, UID: s.UID, GID: s.GID})
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	fi, err := os.Stat(trees)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), fi.Mode().Perm())
	cred, err := git.Credential(nobody, nobody)
	require.NoError(t, err)
	look := func(dir string) error {
		cmd := exec.Command("ls", dir)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: cred}
		return cmd.Run()
	}
	require.NoError(t, look(s.Workspace))
	require.Error(t, look(tree.Path))

	write(t, filepath.Join(tree.Path, "README"), "changed\n")
	write(t, filepath.Join(tree.Path, "new"), "new\n")
	chown(t, tree.Path)
	dir, err := os.Open(tree.Path)
	require.NoError(t, err)
	defer dir.Close()
	for _, v := range []View{{}, {Root: dir}} {
		st, err := w.Status(t.Context(), "claude", "", v)
		require.NoError(t, err)
		require.Equal(t, []int{1, 1}, []int{st.Unstaged, st.Untracked})
		var out bytes.Buffer
		require.NoError(t, w.Diff(t.Context(), "claude", DiffOptions{View: v, NameOnly: true}, &out))
		require.Equal(t, "README\nnew\n", out.String())
	}
	saved, err := w.Discard(t.Context(), "claude", "")
	require.NoError(t, err)
	again, err := w.Restore(t.Context(), saved.Ref, "", "")
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(again.Path, "README"))
	require.NoError(t, err)
	require.Equal(t, "changed\n", string(b))
	fi, err = os.Stat(again.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), fi.Mode().Perm())
}
