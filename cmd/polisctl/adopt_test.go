package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/internal/need"
)

func TestNamesOfAdoptedAgents(t *testing.T) {
	for want, tree := range map[string]ownTree{
		"login":                    {branch: "feature/login"},
		"fix-1-2":                  {branch: "Fix__1.2-"},
		"worktree":                 {branch: "x"},
		"here":                     {path: "/srv/here"},
		"abcdefghijklmnopqrstuvwx": {branch: "abcdefghijklmnopqrstuvwxyz0123456789"},
	} {
		got := agentName(tree, map[string]bool{})
		require.Equal(t, want, got)
		require.NoError(t, api.CheckName(got))
		require.Equal(t, want+"-2", agentName(tree, map[string]bool{want: true}))
	}
	taken := map[string]bool{"ab": true}
	for range 12 {
		name := agentName(ownTree{branch: "ab"}, taken)
		require.False(t, taken[name])
		require.NoError(t, api.CheckName(name))
		taken[name] = true
	}
}

// git lets root use the repository of the user who called sudo, and would run that user's filters as root.
func TestRootReadsNoRepositoryOfTheCallerOfSudo(t *testing.T) {
	need.Root(t)
	const user = 65534
	dir := t.TempDir()
	marker := filepath.Join(t.TempDir(), "ran")
	git := func(args ...string) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@y"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("* filter=f\n"), 0o644))
	git("add", ".")
	git("commit", "-qm", "x")
	git("config", "filter.f.clean", "touch "+marker+"; cat")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("* filter=f \n"), 0o644))
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, user, user))
	}))
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	t.Setenv("SUDO_UID", strconv.Itoa(user))
	_, err := gitOutput(t.Context(), dir, patchOf...)
	require.Error(t, err)
	_, err = listWorktrees(t.Context(), dir)
	require.ErrorContains(t, err, "dubious ownership")
	require.NoFileExists(t, marker)
}
