package timeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store"
	"polis/fusefs/changed"
)

// gitState is the git of the agent.
type gitState struct {
	head  string
	refs  map[string]string
	kept  map[string]bool
	lost  []string // commits that cannot be kept
	keeps int
	deny  error
	fail  error // of a move
}

func (g *gitState) tree(h *host) *Git {
	return &Git{Head: g.head, Refs: maps.Clone(g.refs),
		Movable: func(context.Context, api.Snapshot) error { return g.deny },
		Moves: func(to api.Snapshot) (out []api.RefMoved) {
			for ref, id := range to.Refs {
				if has, ok := g.refs[ref]; ok && has != id && ref != stash {
					out = append(out, api.RefMoved{Ref: ref, From: has, To: id})
				}
			}
			return out
		},
		Move: func(_ context.Context, to api.Snapshot, index func(io.Writer) error) error {
			if g.fail != nil {
				return g.fail
			}
			var b bytes.Buffer
			if index != nil {
				if err := index(&b); err != nil {
					return err
				}
			}
			maps.Copy(g.refs, to.Refs)
			g.head = to.Head
			return os.WriteFile(filepath.Join(h.dir, ".index"), b.Bytes(), 0o600)
		}}
}

func (h *host) KeepCommits(_ context.Context, _ string, commits []string) error {
	if h.git == nil {
		return nil
	}
	for _, c := range commits {
		if slices.Contains(h.git.lost, c) {
			return errors.New("an object is missing")
		}
	}
	h.git.keeps++
	for _, c := range commits {
		h.git.kept[c] = true
	}
	return nil
}

func (h *host) DropCommits(_ context.Context, needed func(agent, commit string) bool) error {
	if h.git != nil {
		maps.DeleteFunc(h.git.kept, func(c string, _ bool) bool { return !needed("a", c) })
	}
	return nil
}

func gitWorld(t *testing.T) (*world, *gitState) {
	w := start(t)
	w.h.set = changed.New()
	w.h.ignored = []string{".index"}
	g := &gitState{head: "ref: refs/heads/agent/a", refs: map[string]string{"refs/heads/agent/a": "c1", "refs/heads/topic": "c1"}, kept: map[string]bool{}}
	w.h.git = g
	w.write(".index", "index 1")
	w.put("a", "one")
	return w, g
}

func (w *world) rewindBranch(to string) (api.SnapshotRestored, error) {
	return w.l.Rewind(w.Context(), "a", api.RewindRequest{To: to, Branch: true})
}

func TestARewindBringsTheBranchBack(t *testing.T) {
	w, g := gitWorld(t)
	first, _ := w.checkpoint()
	require.Equal(t, []any{g.head, g.refs}, []any{first.Head, first.Refs})
	require.True(t, g.kept["c1"])
	require.Equal(t, 1, g.keeps)
	w.put("a", "two")
	w.checkpoint()
	require.Equal(t, 1, g.keeps, "what is kept is not kept again")

	w.write(".index", "index 2")
	w.put("a", "three")
	g.refs["refs/heads/agent/a"], g.refs["refs/heads/new"] = "c2", "c3"
	r, err := w.l.Rewind(t.Context(), "a", api.RewindRequest{To: first.ID, Branch: true, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, []api.RefMoved{{Ref: "refs/heads/agent/a", From: "c2", To: "c1"}}, r.Refs)
	require.Equal(t, []string{"c2", "three"}, []string{g.refs["refs/heads/agent/a"], w.read("a")})

	// Without the branch only the files go back.
	files, err := w.l.Rewind(t.Context(), "a", api.RewindRequest{To: first.ID})
	require.NoError(t, err)
	require.Empty(t, files.Refs)
	require.Equal(t, []string{"c2", "one", "index 2"}, []string{g.refs["refs/heads/agent/a"], w.read("a"), w.read(".index")})

	// With it also if no file differs. The state before is a checkpoint that brings all of it back.
	r, err = w.rewindBranch(first.ID)
	require.NoError(t, err)
	require.Zero(t, r.Changed)
	require.NotEmpty(t, r.Before)
	require.Equal(t, []string{"c1", "one", "index 1"}, []string{g.refs["refs/heads/agent/a"], w.read("a"), w.read(".index")})
	require.Equal(t, "c3", g.refs["refs/heads/new"], "what was made since stays")
	require.True(t, g.kept["c2"] && g.kept["c3"], "the commits before are kept")
	_, err = w.rewindBranch(files.Before)
	require.NoError(t, err)
	require.Equal(t, []string{"c2", "three", "index 2"}, []string{g.refs["refs/heads/agent/a"], w.read("a"), w.read(".index")})
	again, err := w.rewindBranch(files.Before)
	require.NoError(t, err)
	require.Empty(t, again.Before, "nothing differs")

	// A moved ref is a change, and its commit is kept as long as a checkpoint has it.
	g.refs["refs/heads/topic"] = "c4"
	moved, made := w.checkpoint()
	require.True(t, made)
	require.NoError(t, w.l.Collect(t.Context()))
	require.True(t, g.kept["c4"])
	_, err = w.l.Remove(t.Context(), moved.ID)
	require.NoError(t, err)
	require.NoError(t, w.l.Collect(t.Context()))
	require.False(t, g.kept["c4"])
	require.True(t, g.kept["c1"])
}

func TestABranchThatMayNotMoveChangesNothing(t *testing.T) {
	w, g := gitWorld(t)
	first, _ := w.checkpoint()
	w.put("a", "two")
	g.refs["refs/heads/agent/a"] = "c2"
	same := func() {
		t.Helper()
		require.Equal(t, []string{"c2", "two"}, []string{g.refs["refs/heads/agent/a"], w.read("a")})
	}
	g.deny = api.Errorf(api.CodeBadState, "it is in the queue")
	_, err := w.rewindBranch(first.ID)
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	same()
	g.deny, g.fail = nil, api.Errorf(api.CodeFileLocked, "the branch is locked")
	_, err = w.rewindBranch(first.ID)
	require.ErrorContains(t, err, "the branch is locked")
	same()
	_, err = w.l.Rewind(t.Context(), "a", api.RewindRequest{To: first.ID, Branch: true, Paths: []string{"a"}})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	all := w.create(api.SnapshotAll)
	_, err = w.rewindBranch(all.ID)
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	same()
}

// An agent writes its stash itself, and can make its objects disappear.
func TestCommitsThatCannotBeKept(t *testing.T) {
	w, g := gitWorld(t)
	g.refs[stash], g.lost = "bad", []string{"bad"}
	s, _ := w.checkpoint()
	require.Equal(t, []any{"c1", ""}, []any{s.Refs["refs/heads/topic"], s.Refs[stash]})
	require.Equal(t, "bad", g.refs[stash])
	_, made := w.checkpoint()
	require.False(t, made)
	g.lost = []string{"bad", "c2"}
	g.refs["refs/heads/agent/a"] = "c2"
	w.put("a", "two")
	s, made = w.checkpoint()
	require.True(t, made)
	require.Empty(t, s.Head)
	_, err := w.rewindBranch(s.ID)
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	_, made = w.checkpoint()
	require.False(t, made, "it is not tried again and again")
}

// TestAnInterruptedRewindOfTheBranchIsCompleted: whatever had moved when polisd was killed.
func TestAnInterruptedRewindOfTheBranchIsCompleted(t *testing.T) {
	for _, moved := range []bool{false, true} {
		w, g := gitWorld(t)
		first, _ := w.checkpoint()
		w.put("a", "two")
		w.write(".index", "index 2")
		if !moved {
			g.refs["refs/heads/agent/a"] = "c2"
		}
		require.NoError(t, os.MkdirAll(w.l.intents(), 0o700))
		require.NoError(t, store.WriteJSON(w.l.intentFile("a"), intent{Agent: "a", Snapshot: first.ID, Branch: true}))
		w.restart()
		done, err := w.l.Resume(t.Context(), func(string) bool { return true })
		require.NoError(t, err)
		require.Len(t, done, 1)
		require.Equal(t, []string{"c1", "one", "index 1"}, []string{g.refs["refs/heads/agent/a"], w.read("a"), w.read(".index")})
	}
}
