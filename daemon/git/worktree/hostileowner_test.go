package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

// outside is a directory of root's with a file, which must stay as it is.
func outside(t *testing.T, names ...string) (dir string, unchanged func()) {
	t.Helper()
	dir = filepath.Join(tempDir(t), "outside")
	for _, name := range append([]string{"file"}, names...) {
		write(t, filepath.Join(dir, name), "root's\n")
	}
	was := picture(t, dir)
	return dir, func() {
		t.Helper()
		require.Equal(t, was, picture(t, dir))
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			require.NoError(t, err)
			fi, err := os.Lstat(path)
			require.NoError(t, err)
			require.Zero(t, owner(fi), path)
			return nil
		}))
	}
}

// The owner of the workspace owns the shared repository, and can replace its directories by links.
// Root makes, reads, moves and removes nothing through them.
func TestTheOwnerCannotRedirectPartsOfTheRepository(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	w := up(t, s)
	_, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	dir, unchanged := outside(t, "ann/locked", "ann/HEAD", "ann/index", "bob/locked")
	all := filepath.Join(w.bareDir(), parts)
	require.NoError(t, os.Rename(all, all+".real"))
	require.NoError(t, os.Symlink(dir, all))

	_, err = w.Add(t.Context(), "eve", "", "")
	require.Error(t, err)
	unchanged()
	require.Error(t, w.Broken("ann"), "what is outside is not read")
	_, err = w.Head(t.Context(), "ann")
	require.Error(t, err)
	_, err = w.List()
	require.Error(t, err)
	require.Error(t, w.Remove(t.Context(), "ann"))
	unchanged()
	_, err = w.MoveToTrash(t.Context(), "ann", os.ErrInvalid)
	require.Error(t, err)
	err = w.Sparse("ann", "/published")
	require.Error(t, err)
	require.Error(t, w.unlock("bob"))
	unchanged()
	require.Error(t, w.removeAdmin(t.Context(), "ann"))
	unchanged()

	require.NoError(t, os.Remove(all))
	require.NoError(t, os.Rename(all+".real", all))
	require.NoError(t, w.Remove(t.Context(), "ann"))
	unchanged()
}

// A file that root writes in the shared repository has a temporary name, at which its owner can put
// a link.
func TestTheOwnerCannotRedirectTheTargetBranch(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	w := up(t, s)
	dir, unchanged := outside(t)
	require.NoError(t, os.Symlink(filepath.Join(dir, "file"), filepath.Join(w.bareDir(), "HEAD.new")))
	require.NoError(t, os.WriteFile(filepath.Join(w.bareDir(), "HEAD"), []byte("damaged"), 0o644))
	s.Target = "topic"
	_, err := Up(t.Context(), s)
	require.NoError(t, err)
	unchanged()
	target, err := w.Target(t.Context())
	require.NoError(t, err)
	require.Equal(t, "topic", target)
}

// What git made in a scratch directory gets its place only if it is what git made.
func TestAScratchDirectoryThatWasExchangedIsNotTaken(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	w := up(t, s)
	dir, unchanged := outside(t)
	u := &upper{spec: s, w: w}
	for name, exchange := range map[string]func(path string) error{
		"a link": func(path string) error { return os.Symlink(dir, path) },
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"root's": func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		tmp, err := u.scratch("bare-")
		require.NoError(t, err)
		require.NoError(t, exchange(filepath.Join(tmp, "repo.git")))
		require.Error(t, u.place(tmp, "repo.git", filepath.Join(w.polis(), "made")), name)
		require.NoDirExists(t, filepath.Join(w.polis(), "made"), name)
		_, err = openScratch(filepath.Join(tmp, "repo.git"))
		if name == "a link" {
			require.Error(t, err)
		}
		require.NoError(t, os.RemoveAll(tmp))
	}
	unchanged()
	left, err := filepath.Glob(filepath.Join(w.polis(), "bare-[0-9]*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The agent's objects get second names in the trash; none of a file outside does.
func TestTheOwnerCannotRedirectObjects(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	made, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	dir, unchanged := outside(t, "aa/secret")
	own := w.ownDir("ann")
	write(t, filepath.Join(own, "bb", "object"), "x")
	require.NoError(t, os.Symlink(filepath.Join(dir, "aa"), filepath.Join(own, "aa")))
	kept, err := w.MoveToTrash(t.Context(), "ann", os.ErrInvalid)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(kept, "objects", "bb", "object"))
	require.NoFileExists(t, filepath.Join(kept, "objects", "aa", "secret"))
	require.NoDirExists(t, made.Path)
	fi, err := os.Lstat(kept)
	require.NoError(t, err)
	require.Equal(t, uint32(nobody), owner(fi), "its owner can read it")
	unchanged()

	// All of the objects.
	_, err = w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(own))
	require.NoError(t, os.Symlink(dir, own))
	_, err = w.MoveToTrash(t.Context(), "ann", os.ErrInvalid)
	require.Error(t, err)
	unchanged()
	tip, err := w.Bare().Commit(t.Context(), git.Branch("main"))
	require.NoError(t, err)
	require.Error(t, w.lend(t.Context(), "ann", tip), "no directory is made there either")
	unchanged()
}
