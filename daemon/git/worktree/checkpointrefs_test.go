package worktree

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
)

// TestRefsGoBackAndForth: the refs of an agent are where they were, with commits that nothing else reaches.
func TestRefsGoBackAndForth(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	const branch = "agent/claude"
	owned := []string{"refs/heads/own", "refs/tags/mine", "refs/polis/x", "refs/heads/../main", "refs/remotes/o/x"}
	commit := func(text string) {
		write(t, tree.Path+"/README", text)
		chown(t, tree.Path)
		as(t, nobody, tree.Path, "commit", "-qam", text)
	}
	commit("one")
	as(t, nobody, tree.Path, "branch", "own")
	as(t, nobody, tree.Path, "tag", "-am", "annotated", "mine")
	write(t, tree.Path+"/README", "staged")
	as(t, nobody, tree.Path, "add", "README")
	first, err := w.Refs(t.Context(), "claude", branch, owned)
	require.NoError(t, err)
	require.Equal(t, "ref: refs/heads/agent/claude", first.Head)
	require.Len(t, first.Own, 3)
	require.Equal(t, first.Own["refs/heads/own"], first.Commit())
	f, _, err := w.Index("claude")
	require.NoError(t, err)
	index, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	ids := []string{first.Own["refs/heads/own"], first.Own["refs/tags/mine"]}

	// The agent loses all of it.
	as(t, nobody, tree.Path, "reset", "-q", "--hard", "HEAD~1")
	as(t, nobody, tree.Path, "branch", "-f", "own", "HEAD")
	as(t, nobody, tree.Path, "tag", "-f", "mine", "HEAD")
	as(t, nobody, tree.Path, "checkout", "-q", "--detach")
	as(t, nobody, tree.Path, "reflog", "expire", "--expire=now", "--all")
	// Its objects are its own, as those are that it has in no shared ref, and then they are removed.
	require.NoError(t, w.makeOwnDir("claude"))
	own := w.ownDir("claude")
	list, err := w.Bare().Run(t.Context(), "rev-list", "--objects", "--no-object-names", ids[0], ids[1], "--not", "refs/heads/main")
	require.NoError(t, err)
	for id := range strings.FieldsSeq(string(list)) {
		require.NoError(t, os.MkdirAll(filepath.Join(own, id[:2]), 0o755))
		require.NoError(t, os.Rename(filepath.Join(w.bareDir(), "objects", id[:2], id[2:]), filepath.Join(own, id[:2], id[2:])))
	}
	chown(t, own)
	require.NoError(t, w.KeepCommits(t.Context(), "claude", ids))
	require.Error(t, w.KeepCommits(t.Context(), "claude", []string{strings.Repeat("1a", 20)}))
	require.NoError(t, os.RemoveAll(own))
	_, err = w.Bare().Ref(t.Context(), ids[0]+"^{commit}")
	require.ErrorIs(t, err, git.ErrNotFound)
	now, err := w.Refs(t.Context(), "claude", branch, owned)
	require.NoError(t, err)
	require.Len(t, Moves(now, first), 4)

	require.NoError(t, w.MayMove(t.Context(), "claude", first.Commit(), ""))
	require.NoError(t, w.MoveRefs(t.Context(), "claude", branch, owned, first, func(to io.Writer) error { _, err := to.Write(index); return err }))
	again, err := w.Refs(t.Context(), "claude", branch, owned)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, "staged", as(t, nobody, tree.Path, "show", ":README"))
	require.Equal(t, "one", as(t, nobody, tree.Path, "show", "HEAD:README"))
	require.Equal(t, "annotated\n", as(t, nobody, tree.Path, "for-each-ref", "--format=%(contents)", "refs/tags/mine")[:10])
	as(t, nobody, tree.Path, "fsck", "--strict")

	// And back to the detached HEAD, without a saved index.
	require.NoError(t, w.MoveRefs(t.Context(), "claude", branch, owned, now, nil))
	require.Equal(t, now.Head, strings.TrimSpace(as(t, nobody, tree.Path, "rev-parse", "HEAD")))
	require.Equal(t, "hello", as(t, nobody, tree.Path, "show", ":README"))
	_, err = os.Lstat(filepath.Join(w.admin("claude"), "index.lock"))
	require.ErrorIs(t, err, os.ErrNotExist)

	// Others' refs and the target are never moved, whatever the checkpoint has.
	target, err := w.Bare().Ref(t.Context(), "refs/heads/main")
	require.NoError(t, err)
	evil := Refs{Head: now.Head, Own: map[string]string{"refs/heads/main": ids[0], "refs/heads/topic": ids[0]}}
	require.NoError(t, w.MoveRefs(t.Context(), "claude", branch, owned, evil, nil))
	still, err := w.Bare().Ref(t.Context(), "refs/heads/main")
	require.NoError(t, err)
	require.Equal(t, target, still)
	err = w.MoveRefs(t.Context(), "claude", branch, owned, Refs{Head: "ref: refs/heads/main"}, nil)
	require.Equal(t, api.CodeBadState, api.CodeOf(err))

	require.NoError(t, w.DropCommits(t.Context(), func(_, commit string) bool { return commit == ids[1] }))
	left, err := w.Internal().Refs(t.Context(), "refs/polis/checkpoints")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"refs/polis/checkpoints/claude/" + ids[1]: ids[1]}, left)
}

func TestRefsThatMayNotMove(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	old := strings.TrimSpace(as(t, nobody, tree.Path, "rev-parse", "HEAD"))
	as(t, nobody, tree.Path, "commit", "-q", "--allow-empty", "-m", "work")
	tip := strings.TrimSpace(as(t, nobody, tree.Path, "rev-parse", "HEAD"))
	merge := strings.TrimSpace(as(t, nobody, tree.Path, "commit-tree", "-p", old, "-p", tip, "-m", "merge", tip+"^{tree}"))
	require.NoError(t, w.MayMove(t.Context(), "claude", old, ""))
	require.NoError(t, w.MayMove(t.Context(), "claude", tip, merge), "all that was merged is in it")
	err = w.MayMove(t.Context(), "claude", old, merge)
	require.ErrorContains(t, err, "was merged since")
	err = w.MayMove(t.Context(), "claude", old, tip) // the target was forwarded to it
	require.ErrorContains(t, err, "was merged since")
	write(t, filepath.Join(w.admin("claude"), "MERGE_HEAD"), tip+"\n")
	err = w.MayMove(t.Context(), "claude", old, "")
	require.ErrorContains(t, err, "MERGE_HEAD")
}
