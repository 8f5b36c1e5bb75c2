package corpus

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func goroot(t *testing.T) string {
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func TestCorpusIsTheSameEveryTime(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two trees of Go's sources")
	}
	o := Options{GoRoot: goroot(t), Only: []string{"strings", "sort"}, History: 7, Changed: 20}
	a, err := Make(t.Context(), filepath.Join(t.TempDir(), "a"), o)
	require.NoError(t, err)
	b, err := Make(t.Context(), filepath.Join(t.TempDir(), "b"), o)
	require.NoError(t, err)
	require.Equal(t, a.Head, b.Head)
	require.Equal(t, a.Other, b.Other)
	require.NotEqual(t, a.Head, a.Other)

	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", a.Dir}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	require.Empty(t, git("status", "--porcelain"))
	require.Len(t, strings.Split(git("diff", "--name-only", "main", "other"), "\n"), o.Changed)
	require.Equal(t, "8", git("rev-list", "--count", "main"))
	loose := git("count-objects", "-v")
	require.NotContains(t, loose, "\ncount: 0\n", "some objects are loose")
	require.Contains(t, loose, "packs: 1")
	git("fsck", "--full", "--strict")
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	require.NoError(t, a.Build(t.Context(), strings.TrimSpace(string(cache))))
	require.Empty(t, git("status", "--porcelain"), "building leaves nothing in the tree")
}

func TestCorpusRefusesMoreChangesThanFiles(t *testing.T) {
	_, err := Make(t.Context(), filepath.Join(t.TempDir(), "a"), Options{GoRoot: goroot(t), Only: []string{"sort"}, History: 6, Changed: 9999})
	require.ErrorContains(t, err, "cannot differ")
}
