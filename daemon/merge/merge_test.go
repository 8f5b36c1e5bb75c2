package merge

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/store/layout"
	"polis/internal/need"
)

const nobody = 65534

func needRoot(t *testing.T) {
	t.Helper()
	need.Root(t)
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

func as(t *testing.T, uid uint32, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}
	cred, err := git.Credential(uid, uid)
	require.NoError(t, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSuffix(string(out), "\n")
}

type fixture struct {
	*Merger
	project, workspace string
}

// recordAgain is for a project that was given to another user: a person has made a workspace of it.
func (f fixture) recordAgain(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(layout.Workspace(f.workspace).ProjectRecord()))
	_, err := worktree.Up(t.Context(), worktree.Spec{Workspace: f.workspace, UID: nobody, GID: nobody})
	require.NoError(t, err)
	require.NoError(t, os.Chmod(filepath.Join(f.workspace, ".polis", "worktrees"), 0o711))
}

func setup(t *testing.T) fixture {
	t.Helper()
	needRoot(t)
	src := filepath.Join(tempDir(t), "src")
	require.NoError(t, os.Mkdir(src, 0o755))
	as(t, 0, src, "init", "-q", "-b", "main")
	require.NoError(t, os.WriteFile(filepath.Join(src, "file"), []byte("one\n"), 0o644))
	as(t, 0, src, "add", ".")
	as(t, 0, src, "commit", "-qm", "first")
	return workspaceOf(t, src)
}

// workspaceOf is a workspace of a project.
func workspaceOf(t *testing.T, src string) fixture {
	t.Helper()
	ws := filepath.Join(tempDir(t), "ws")
	_, err := worktree.Up(t.Context(), worktree.Spec{Workspace: ws, Repo: src, UID: nobody, GID: nobody})
	require.NoError(t, err)
	// The tests are the agents, too, and those reach their worktree.
	require.NoError(t, os.Chmod(filepath.Join(ws, ".polis", "worktrees"), 0o711))
	return fixture{&Merger{Workspace: worktree.Open(worktree.Config{Workspace: ws, UID: nobody, GID: nobody})}, src, ws}
}

// work adds an agent that commits text to a file.
func (f fixture) work(t *testing.T, agent, file, text string) worktree.Worktree {
	t.Helper()
	tree, err := f.Workspace.Add(t.Context(), agent, "", "")
	require.NoError(t, err)
	path := filepath.Join(tree.Path, file)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	require.NoError(t, os.Lchown(path, nobody, nobody))
	as(t, nobody, tree.Path, "add", "-A")
	as(t, nobody, tree.Path, "commit", "-qm", agent)
	return tree
}

func (f fixture) merge(t *testing.T, agent string) (Result, error) {
	return f.Merge(t.Context(), Request{Agent: agent, Branch: "agent/" + agent})
}

func TestMergeAndConflict(t *testing.T) {
	f := setup(t)
	f.work(t, "one", "file", "by one\n")
	f.work(t, "two", "file", "by two\n")
	dry, err := f.DryRun(t.Context(), Request{Branch: "agent/one"})
	require.NoError(t, err)
	require.Empty(t, dry.Commit)
	require.Equal(t, []string{"file"}, dry.Paths)
	res, err := f.merge(t, "one")
	require.NoError(t, err)
	require.Equal(t, dry.Tree, res.Tree)
	parents, err := f.Workspace.Bare().Parents(t.Context(), res.Commit)
	require.NoError(t, err)
	require.Equal(t, []string{res.Onto, res.Merged}, parents)
	_, err = f.merge(t, "one")
	require.Equal(t, api.CodeNothingToMerge, api.CodeOf(err))
	_, err = f.merge(t, "two")
	require.Equal(t, api.CodeMergeConflict, api.CodeOf(err))
	require.Equal(t, []string{"file"}, api.AsError(err).Details["paths"])
	_, err = f.merge(t, "none")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	_, err = f.Merge(t.Context(), Request{Branch: "--help"})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
}

func TestTenBranchesAtOnceMakeTenMerges(t *testing.T) {
	f := setup(t)
	for i := range 10 {
		f.work(t, fmt.Sprintf("agent-%d", i), fmt.Sprintf("file %d\n\xff", i), "x\n")
	}
	errs := make([]error, 10)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { _, errs[i] = f.merge(t, fmt.Sprintf("agent-%d", i)) })
	}
	wait.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	n, err := f.Workspace.Bare().Count(t.Context(), "--first-parent", "--min-parents=2", "main")
	require.NoError(t, err)
	require.Equal(t, 10, n)
	as(t, nobody, f.Workspace.Bare().Dir, "fsck", "--strict")
}

func TestRevert(t *testing.T) {
	f := setup(t)
	f.work(t, "one", "one", "1\n")
	f.work(t, "two", "two", "2\n")
	one, err := f.merge(t, "one")
	require.NoError(t, err)
	_, err = f.merge(t, "two")
	require.NoError(t, err)
	back, err := f.Revert(t.Context(), one.Commit)
	require.NoError(t, err)
	require.Equal(t, 1, back.Later)
	require.Equal(t, []string{"one"}, back.Paths)
	require.Equal(t, "file\ntwo", as(t, nobody, f.Workspace.Bare().Dir, "ls-tree", "--name-only", "main"))
	_, err = f.Revert(t.Context(), one.Commit)
	require.Equal(t, api.CodeNothingToMerge, api.CodeOf(err))
	for _, bad := range []string{"main", back.Commit, strings.Repeat("0", 40), "--help"} {
		_, err = f.Revert(t.Context(), bad)
		require.Error(t, err, bad)
	}
}

func TestBringAlong(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(f fixture)
		updated bool
		reason  string
	}{
		"clean": {func(fixture) {}, true, ""},
		"dirty": {func(f fixture) {
			require.NoError(t, os.WriteFile(f.project+"/file", []byte("mine\n"), 0o644))
		}, false, "uncommitted changes"},
		"untracked in the way": {func(f fixture) {
			require.NoError(t, os.WriteFile(f.project+"/new", []byte("mine\n"), 0o644))
		}, false, "merge"},
		"ignored in the way": {func(f fixture) {
			require.NoError(t, os.WriteFile(f.project+"/.git/info/exclude", []byte("new\n"), 0o644))
			require.NoError(t, os.WriteFile(f.project+"/new", []byte("mine\n"), 0o644))
		}, false, "merge"},
		"filters": {func(f fixture) {
			as(t, 0, f.project, "config", "filter.x.smudge", "touch canary")
			require.NoError(t, os.MkdirAll(f.project+"/.git/info", 0o755))
			require.NoError(t, os.WriteFile(f.project+"/.git/info/attributes", []byte("new filter=x\n"), 0o644))
		}, false, "the filter x of your git applies to \"new\""},
		"filters of nothing": {func(f fixture) { as(t, 0, f.project, "config", "filter.x.smudge", "touch canary") }, true, ""},
		"other branch":       {func(f fixture) { as(t, 0, f.project, "checkout", "-qb", "else") }, true, ""},
		"other worktree": {func(f fixture) {
			as(t, 0, f.project, "checkout", "-qb", "else")
			as(t, 0, f.project, "worktree", "add", "-q", filepath.Join(filepath.Dir(f.project), "wt"), "main")
		}, false, "another worktree"},
		"branch gone": {func(f fixture) {
			as(t, 0, f.project, "checkout", "-qb", "else")
			as(t, 0, f.project, "branch", "-D", "main")
		}, false, "no branch main"},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			hook := f.project + "/.git/hooks/post-merge"
			require.NoError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
			require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\ntouch canary\n"), 0o755))
			f.work(t, "one", "new", "agent's\n")
			res, err := f.merge(t, "one")
			require.NoError(t, err)
			c.spoil(f)
			before, err := os.ReadFile(f.project + "/file")
			require.NoError(t, err)
			a, err := f.UpdateCheckout(t.Context())
			require.NoError(t, err)
			require.True(t, a.Fetched)
			require.Equal(t, c.updated, a.Updated, a.Reason)
			require.Contains(t, a.Reason, c.reason)
			require.Equal(t, a.Updated, a.Command == "")
			require.Equal(t, res.Commit, as(t, 0, f.project, "rev-parse", "refs/remotes/polis/main"))
			if c.updated {
				require.Equal(t, res.Commit, as(t, 0, f.project, "rev-parse", "main"))
			}
			after, err := os.ReadFile(f.project + "/file")
			require.NoError(t, err)
			require.Equal(t, before, after)
			if data, err := os.ReadFile(f.project + "/new"); err == nil && !c.updated {
				require.Equal(t, "mine\n", string(data))
			}
			require.NoFileExists(t, f.project+"/canary")
		})
	}
}

func FuzzParseMergeTree(f *testing.F) {
	f.Add([]byte(strings.Repeat("a", 40)+"\x00f\x00\x001\x00f\x00CONFLICT (contents)\x00CONFLICT in f\n\x00"), true)
	f.Add([]byte(strings.Repeat("a", 40)+"\x00"), false)
	f.Fuzz(func(t *testing.T, out []byte, conflicted bool) {
		m, err := parseMergeTree(out, conflicted)
		if err == nil {
			require.True(t, git.IsOID(m.tree))
			require.Equal(t, conflicted, len(m.conflicts) > 0)
		}
	})
}

func TestMergeNamesTheAgentInATrailer(t *testing.T) {
	f := setup(t)
	for i, x := range []struct{ message, trailer, want string }{
		{"", "Polis-Agent: a0", "Merge branch 'agent/a0' into main\n\nPolis-Agent: a0\n"},
		{"", "", "Merge branch 'agent/a1' into main\n"},
		{"subject", "Polis-Agent: a2", "subject\n\nPolis-Agent: a2\n"},
		{"subject\n\nSigned-off-by: A <a@b>\n", "Polis-Agent: a3", "subject\n\nSigned-off-by: A <a@b>\nPolis-Agent: a3\n"},
		{"subject\n\nbody\n---\nmore\n", "Polis-Agent: a4", "subject\n\nbody\n---\nmore\n\nPolis-Agent: a4\n"},
		{"subject\n\nPolis-Agent: a5", "Polis-Agent: a5", "subject\n\nPolis-Agent: a5\n"},
		{"subject\n\nPolis-Agent: other", "Polis-Agent: a6", "subject\n\nPolis-Agent: other\nPolis-Agent: a6\n"},
	} {
		agent := fmt.Sprintf("a%d", i)
		f.work(t, agent, agent, "x\n")
		res, err := f.Merge(t.Context(), Request{Agent: agent, Branch: "agent/" + agent, Message: x.message, Trailer: x.trailer})
		require.NoError(t, err)
		got, err := f.Workspace.Bare().Message(t.Context(), res.Commit)
		require.NoError(t, err)
		require.Equal(t, x.want, strings.TrimRight(got, "\n")+"\n")
	}
}
