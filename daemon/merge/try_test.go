package merge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

func count(t *testing.T, dir string) (n int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	}))
	return n
}

func TestTryingKeepsNothingAndOneBadPairSpoilsNoOther(t *testing.T) {
	f := setup(t)
	f.work(t, "one", "file", "by one\n")
	f.work(t, "two", "file", "by two\n")
	f.work(t, "three", "other", "by three\n")
	bare := f.Workspace.Bare()
	tip := func(branch string) string {
		oid, err := bare.Commit(t.Context(), "refs/heads/"+branch)
		require.NoError(t, err)
		return oid
	}
	tree, err := bare.Line(t.Context(), "rev-parse", "agent/one^{tree}")
	require.NoError(t, err)
	stranger, err := bare.CommitTree(t.Context(), tree, nil, "a root of its own", git.Idents{})
	require.NoError(t, err)
	scratch, objects := tempDir(t), filepath.Join(bare.Dir, "objects")
	before := count(t, objects)
	one, two, three := tip("agent/one"), tip("agent/two"), tip("agent/three")
	got, err := Try(t.Context(), bare, scratch, []Pair{
		{one, two}, {one, stranger}, {one, three}, {strings.Repeat("1", 40), two}, {tip("main"), two}, {two, one},
	})
	require.NoError(t, err)
	require.Len(t, got, 6)
	require.Equal(t, Tried{Paths: []string{"file"}, Total: 1}, got[0])
	require.ErrorContains(t, got[1].Err, "unrelated")
	require.Equal(t, Tried{}, got[2])
	require.Error(t, got[3].Err)
	require.Equal(t, Tried{}, got[4])
	require.Equal(t, Tried{Paths: []string{"file"}, Total: 1}, got[5])
	require.Equal(t, before, count(t, objects), "the shared repository has got objects")
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)

	_, err = Try(t.Context(), bare, scratch, []Pair{{"--help", two}})
	require.ErrorContains(t, err, "not two commits")
	_, err = Try(t.Context(), bare, filepath.Join(scratch, "gone"), []Pair{{one, two}})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAlternatesAreQuoted(t *testing.T) {
	require.Equal(t, "/a/b c", alternate("/a/b c"))
	require.Equal(t, `"/a:b\"\\"`, alternate(`/a:b"\`))
}

// What git prints is partly what agents named their files.
func FuzzParseTries(f *testing.F) {
	tree := strings.Repeat("a", 40)
	f.Add([]byte("1\x00"+tree+"\x00\x00\x00"), 1)
	f.Add([]byte("0\x00"+tree+"\x00f\x00\x001\x00f\x00Auto-merging\x00m\x001\x00f\x00CONFLICT (contents)\x00m\n\x00\x001\x00"+tree+"\x00\x00\x00"), 2)
	f.Add([]byte("0\x00"+tree+"\x00\x002\x00f\x00g\x00CONFLICT (file location)\x00m\x00\x00"), 1)
	f.Add([]byte("0\x00"+tree+"\x00f\x00\x0099999999999999999999\x00f\x00"), 1)
	f.Fuzz(func(t *testing.T, out []byte, n int) {
		n = min(max(n, 0), 100)
		got, err := parseTries(out, n)
		if err != nil {
			return
		}
		require.Len(t, got, n)
		for _, g := range got {
			require.LessOrEqual(t, len(g.Paths), g.Total)
			require.NoError(t, g.Err)
		}
	})
}
