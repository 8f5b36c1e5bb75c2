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

// TestDiffEntersNoSubmodule: a filter of a repository inside the worktree, which
// the agent's own index and .gitmodules say is a submodule to be looked into.
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
