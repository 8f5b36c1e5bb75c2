package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/host/private"
)

// Feature: multi-agent-workspaces, Property 20: Initialization Idempotence
func TestUpAnyNumberOfTimesChangesNothing(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	w := up(t, s)
	require.NoError(t, private.Dir(w.treesDir()))
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		// Whatever agents there are by now.
		switch rapid.SampledFrom([]string{"as it is", "as it is", "add", "remove"}).Draw(rt, "agents") {
		case "add":
			if list, err := w.List(); err == nil && len(list) < 4 {
				n++
				_, err := w.Add(t.Context(), fmt.Sprintf("agent%d", n), "", "")
				require.NoError(t, err)
			}
		case "remove":
			list, err := w.List()
			require.NoError(t, err)
			if len(list) > 0 {
				require.NoError(t, w.Remove(t.Context(), list[0].Agent))
			}
		}
		before := snapshot(t, s.Workspace)
		for range rapid.IntRange(1, 3).Draw(rt, "times") {
			repo := rapid.SampledFrom([]string{s.Repo, "", s.Repo + "/.", s.Repo + "//"}).Draw(rt, "repo")
			again, err := Up(t.Context(), Spec{Workspace: s.Workspace, Repo: repo, UID: nobody, GID: nobody})
			require.NoError(t, err)
			require.False(t, again.Changed)
			require.Equal(t, "main", again.Target)
			require.Equal(t, before, snapshot(t, s.Workspace))
		}
	})
}

// Feature: multi-agent-workspaces, Property 22: Corrupted Worktree Handling
func TestAnyCorruptWorktreeIsReportedAndTheOthersAreWhole(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	names := []string{"claude", "codex", "gemini"}
	for _, n := range names {
		_, err := w.Add(t.Context(), n, "", "")
		require.NoError(t, err)
		write(t, w.tree(n)+"/work", "precious")
	}
	rapid.Check(t, func(rt *rapid.T) {
		victim := rapid.SampledFrom(names).Draw(rt, "victim")
		file := rapid.SampledFrom([]string{w.tree(victim) + "/.git", w.admin(victim) + "/HEAD", w.admin(victim) + "/gitdir", w.admin(victim) + "/commondir"}).Draw(rt, "file")
		good, err := os.ReadFile(file)
		require.NoError(t, err)
		fi, err := os.Lstat(file)
		require.NoError(t, err)
		require.NoError(t, os.Remove(file))
		kind := rapid.SampledFrom([]string{"missing", "empty", "garbage", "directory", "pipe", "link"}).Draw(rt, "kind")
		switch kind {
		case "empty":
			require.NoError(t, os.WriteFile(file, nil, 0o644))
		case "garbage":
			require.NoError(t, os.WriteFile(file, append([]byte{0xff}, rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(rt, "bytes")...), 0o644))
		case "directory":
			require.NoError(t, os.Mkdir(file, 0o755))
		case "pipe":
			require.NoError(t, unix.Mkfifo(file, 0o644))
		case "link":
			require.NoError(t, os.Symlink("/etc/passwd", file))
		}
		list, err := w.List()
		require.NoError(t, err, "one corrupt worktree does not stop the others")
		require.Len(t, list, len(names))
		for _, tree := range list {
			if tree.Agent == victim {
				// git finds the shared repository without the other two.
				if base := filepath.Base(file); base == ".git" || base == "HEAD" {
					require.Error(t, tree.Broken, "%s of %s is %s", base, victim, kind)
				}
				continue
			}
			require.NoError(t, tree.Broken)
			require.Equal(t, w.tree(tree.Agent), tree.Path)
		}
		for _, n := range names {
			b, err := os.ReadFile(w.tree(n) + "/work")
			require.NoError(t, err)
			require.Equal(t, "precious", string(b))
		}
		require.NoError(t, os.RemoveAll(file))
		require.NoError(t, os.WriteFile(file, good, fi.Mode().Perm()))
		require.NoError(t, os.Lchown(file, nobody, nobody))
		list, err = w.List()
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(list, func(t Worktree) bool { return t.Broken != nil }), "what is mended is whole again")
	})
}
