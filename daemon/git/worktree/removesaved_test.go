package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAWorktreeIsRemovedOnlyIfItsWorkIsSaved(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	nested := errors.New("it contains a repository")
	for name, c := range map[string]struct {
		spoil   func(tree string)
		reader  bool
		partial error
		err     error
		saves   int
		trash   bool
		stays   bool
	}{
		"whole":         {saves: 1},
		"partial":       {partial: nested, saves: 1, trash: true},
		"unsaved":       {err: errors.New("no space"), saves: 1, stays: true},
		"reader":        {reader: true, err: errors.New("never called")},
		"without-files": {spoil: func(tree string) { require.NoError(t, os.RemoveAll(tree)) }, err: errors.New("never called"), trash: true},
		"damaged":       {spoil: func(tree string) { require.NoError(t, os.Remove(filepath.Join(tree, ".git"))) }, err: errors.New("never called"), trash: true},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := w.Add(t.Context(), name, "", "")
			require.NoError(t, err)
			private := w.layout().Private(name)
			require.NoError(t, os.MkdirAll(private, 0o755))
			if c.spoil != nil {
				c.spoil(tree.Path)
			}
			saves := 0
			dir, err := w.RemoveSaved(t.Context(), name, c.reader, func() (partial, err error) { saves++; return c.partial, c.err })
			require.Equal(t, c.saves, saves)
			require.Equal(t, c.trash, dir != "")
			if c.stays {
				require.ErrorIs(t, err, c.err)
				require.DirExists(t, tree.Path)
				return
			}
			require.NoError(t, err)
			require.NoDirExists(t, tree.Path)
			if c.trash {
				require.DirExists(t, filepath.Join(dir, "private"), "no other agent gets them")
				require.NoDirExists(t, private)
			}
		})
	}
}

func TestTheBranchOfAnUnreadableWorktreeIsSaved(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	_, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	opt := SaveOptions{Branch: "agent/claude"}
	whole, partial, err := w.SaveWork(t.Context(), "claude", opt)
	require.NoError(t, err)
	require.NoError(t, partial)
	require.NotEmpty(t, whole.Head)
	require.NoError(t, unix.Mkfifo(filepath.Join(w.tree("claude"), ".gitignore"), 0o644))
	saved, partial, err := w.SaveWork(t.Context(), "claude", opt)
	require.NoError(t, err)
	require.ErrorIs(t, partial, ErrUnreadable)
	require.Equal(t, whole.Head, saved.Head)
}
