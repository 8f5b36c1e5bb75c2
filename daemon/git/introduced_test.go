package git

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every file of every commit is handed out by one of them, and of a merge only what
// no parent has there.
func TestIntroducedNamesEveryFileOnce(t *testing.T) {
	r, own, run := ownStore(t)
	with := r.Own(own)
	file := func(path, text string) {
		t.Helper()
		full := filepath.Join(filepath.Dir(own), "tree", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
	introduced := func(revs ...string) []string {
		t.Helper()
		var out []string
		require.NoError(t, with.Introduced(t.Context(), revs, func(path, id string) error {
			out = append(out, path+" "+run("cat-file", "-p", id))
			return nil
		}))
		slices.Sort(out)
		return out
	}
	first := run("rev-parse", "HEAD")
	require.Equal(t, []string{"a a", "b b", "c/d c/d"}, introduced(first))
	file("a", "left")
	run("commit", "-qam", "left")
	left := run("rev-parse", "HEAD")
	run("checkout", "-q", first)
	file("a", "right")
	file("e \t\"\n", "odd name")
	require.NoError(t, os.Symlink("a", filepath.Join(filepath.Dir(own), "tree", "link")))
	run("update-index", "--add", "--cacheinfo", "160000,"+first+",module")
	run("rm", "-q", "--cached", "b")
	run("add", "e \t\"\n", "a", "link")
	run("commit", "-qm", "right")
	right := run("rev-parse", "HEAD")
	require.Equal(t, []string{"a right", "e \t\"\n odd name", "link a"}, introduced(right, "^"+first))
	run("merge", "-q", "-s", "ours", "--no-commit", left)
	file("a", "evil")
	file("new", "evil too")
	run("add", "a", "new")
	run("commit", "-qm", "merge")
	merge := run("rev-parse", "HEAD")
	require.Equal(t, []string{"a evil", "new evil too"}, introduced(merge, "^"+left, "^"+right))
	require.Equal(t, []string{"a a", "a evil", "a left", "a right", "b b", "c/d c/d", "e \t\"\n odd name", "link a", "new evil too"}, introduced(merge))
	for pair, want := range map[[2]string][2]int{{left, left}: {0, 0}, {left, first}: {1, 0}, {first, left}: {0, 1}, {left, right}: {1, 1}, {first, merge}: {0, 3}} {
		ahead, behind, err := with.Diverged(t.Context(), pair[0], pair[1])
		require.NoError(t, err)
		require.Equal(t, want, [2]int{ahead, behind})
	}
	_, _, err := with.Diverged(t.Context(), left, strings.Repeat("1", 40))
	require.Error(t, err)
	require.Error(t, with.Introduced(t.Context(), []string{strings.Repeat("1", 40)}, func(string, string) error { return nil }))

	enough := errors.New("enough")
	require.ErrorIs(t, with.Introduced(t.Context(), []string{merge}, func(string, string) error { return enough }), enough)

	files := map[string]string{}
	require.NoError(t, with.Files(t.Context(), run("rev-parse", "HEAD^{tree}"), func(path, id string) error { files[path] = id; return nil }))
	require.ElementsMatch(t, []string{"a", "c/d", "e \t\"\n", "link", "new"}, slices.Collect(maps.Keys(files)))

	ids, err := with.Skeleton(t.Context(), []string{merge, run("rev-parse", "HEAD:a")})
	require.NoError(t, err)
	for _, id := range ids {
		require.NotEqual(t, "blob", run("cat-file", "-t", id))
	}
	require.Contains(t, ids, run("rev-parse", "HEAD:c"))
}

// What is kept is in both directories, as loose objects and in packs, and only what
// lies in the agent's own is held by it.
func TestPublishKeptLeavesTheAgentItsObjects(t *testing.T) {
	for _, packed := range []bool{false, true} {
		r, own, run := ownStore(t)
		tip, a := run("rev-parse", "HEAD"), run("rev-parse", "HEAD:a")
		other := run("-C", r.Dir, "rev-parse", "main")
		if packed {
			run("repack", "-adlq")
		}
		before := run("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
		require.NoError(t, os.MkdirAll(filepath.Join(own, "info"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(own, "info", "alternates"), []byte(r.ObjectDir()+"\n"), 0o644))
		require.NoError(t, r.PublishKept(t.Context(), own, tip))
		require.NoError(t, r.Complete(t.Context(), tip))
		held, err := Holds(own, append(strings.Fields(before), strings.Repeat("1", 40)))
		require.NoError(t, err)
		require.True(t, held[tip] && held[a], "packed %v", packed)
		require.False(t, held[other], "it lies in the repository only")
		require.False(t, held[strings.Repeat("1", 40)])
		there, err := r.Present(t.Context(), []string{tip, a, strings.Repeat("1", 40)})
		require.NoError(t, err)
		require.Equal(t, []string{tip, a}, there)
	}
}
