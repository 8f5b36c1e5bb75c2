package git

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func self() *Runner { return &Runner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())} }

// What CheckBranch lets through, git takes as a branch too.
func TestCheckBranchIsStricterThanGit(t *testing.T) {
	for _, name := range []string{"main", "agent/claude", "a..b"[:1] + "-b", "ünïcode", "feature/#1", "x_HEAD/y", "a@b"} {
		require.NoError(t, CheckBranch(name), name)
	}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab/.-@{}~^:?*[\\ lock\x01\x7fé")), 1, 12, -1).Draw(rt, "name")
		if CheckBranch(name) != nil {
			return
		}
		require.NoError(rt, exec.Command("git", "check-ref-format", "--branch", name).Run(), "%q", name)
	})
}

func FuzzCheckBranch(f *testing.F) {
	f.Add("agent/x")
	f.Add("-x")
	f.Fuzz(func(t *testing.T, name string) {
		if err := CheckBranch(name); err != nil {
			require.ErrorIs(t, err, ErrBadName)
			return
		}
		require.NotContains(t, name, "\x00")
		require.False(t, strings.HasPrefix(name, "-"))
	})
}

func TestEndedContextKillsTheGroup(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "git")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nsleep 600 &\necho $! > "+dir+"/child\nwait\n"), 0o755))
	r := self()
	r.Git = script
	_, err := r.Run(t.Context(), Cmd{Args: []string{"x"}, Remote: true, Timeout: 300 * time.Millisecond})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, coded := ExitCode(err)
	require.False(t, coded)
	pid, err := os.ReadFile(dir + "/child")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ")
	}, 30*time.Second, 10*time.Millisecond)
}

func TestOutputIsBounded(t *testing.T) {
	script := filepath.Join(t.TempDir(), "git")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nexec head -c 100000000 /dev/zero\n"), 0o755))
	r := self()
	r.Git = script
	_, err := r.Run(t.Context(), Cmd{Args: []string{"x"}, Remote: true})
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("GIT_DIR", "/nonexistent")
	t.Setenv("GIT_EXTERNAL_DIFF", "/nonexistent")
	t.Setenv("LD_PRELOAD", "")
	out, err := self().Run(t.Context(), Cmd{Args: []string{"config", "--list", "--show-scope"}})
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		require.True(t, strings.HasPrefix(line, "command\t"), line)
	}
	require.Contains(t, string(out), "core.fsmonitor=false")
}

func TestUpdateNoticesAMovedRef(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.git")
	_, err := self().Run(t.Context(), Cmd{Args: []string{"init", "-q", "--bare", dir}, Write: []string{filepath.Dir(dir)}})
	require.NoError(t, err)
	r := Repo{Runner: self(), Dir: dir}
	tree, err := r.Do(t.Context(), Cmd{Args: []string{"mktree"}, Stdin: strings.NewReader("")})
	require.NoError(t, err)
	one, err := r.CommitTree(t.Context(), strings.TrimSpace(string(tree)), nil, "one", Idents{})
	require.NoError(t, err)
	two, err := r.CommitTree(t.Context(), strings.TrimSpace(string(tree)), []string{one}, "two", Idents{})
	require.NoError(t, err)
	require.NoError(t, r.Update(t.Context(), "refs/heads/x", one, "", "t"))
	require.ErrorIs(t, r.Update(t.Context(), "refs/heads/x", two, "", "t"), ErrRefMoved)
	require.NoError(t, r.Update(t.Context(), "refs/heads/x", two, one, "t"))
	require.ErrorIs(t, r.Update(t.Context(), "refs/heads/x", one, one, "t"), ErrRefMoved)
	require.ErrorIs(t, r.Delete(t.Context(), "refs/heads/x", one), ErrRefMoved)
	_, err = r.Ref(t.Context(), "refs/heads/none")
	require.ErrorIs(t, err, ErrNotFound)

	to := Repo{Runner: self(), Dir: filepath.Join(t.TempDir(), "to.git")}
	_, err = self().Run(t.Context(), Cmd{Args: []string{"init", "-q", "--bare", to.Dir}, Write: []string{filepath.Dir(to.Dir)}})
	require.NoError(t, err)
	require.NoError(t, Copy(t.Context(), r, to, []string{two}))
	require.NoError(t, Copy(t.Context(), r, to, []string{two}))
	got, err := to.Commit(t.Context(), two)
	require.NoError(t, err)
	require.Equal(t, two, got)
	require.Error(t, Copy(t.Context(), r, to, []string{strings.Repeat("1", 40)}))
}
