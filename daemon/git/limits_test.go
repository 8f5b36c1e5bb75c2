package git

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/host/cage"
)

// TestAMergeHasItsMemory: two files whose comparison needs more memory than a git for an agent
// has are an error with that reason; others are merged.
func TestAMergeHasItsMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.git")
	_, err := self().Run(t.Context(), Cmd{Args: []string{"init", "-q", "--bare", dir}, Write: []string{filepath.Dir(dir)}})
	require.NoError(t, err)
	r := Repo{Runner: self(), Dir: dir}
	// base, ours and theirs of a file with a letter on each line.
	merge := func(lines int, limits *cage.Limits) error {
		var in bytes.Buffer
		text := bytes.Repeat([]byte("a\nb\n"), lines/2)
		for i, at := range []int{-1, lines / 2, lines} {
			edited := bytes.Clone(text)
			if at >= 0 {
				edited = append(edited[:at:at], append([]byte("edited\n"), edited[at:]...)...)
			}
			fmt.Fprintf(&in, "commit refs/heads/c%d\nmark :%d\ncommitter a <a@b> 0 +0000\ndata 0\n", i, i+1)
			if i > 0 {
				fmt.Fprint(&in, "from :1\n")
			}
			fmt.Fprintf(&in, "M 100644 inline file\ndata %d\n%s\n", len(edited), edited)
		}
		_, err := r.Do(t.Context(), Cmd{Args: []string{"fast-import", "--quiet", "--force"}, Stdin: &in})
		require.NoError(t, err)
		_, err = r.Do(t.Context(), Cmd{Args: []string{"merge-tree", "--write-tree", "refs/heads/c1", "refs/heads/c2"}, Limits: limits})
		return err
	}
	require.NoError(t, merge(2000, nil))
	// A smaller bound, for a test that takes no gigabyte.
	small := contentLimits
	small.Data = 32 << 20
	err = merge(600_000, &small)
	require.ErrorContains(t, err, "git merge-tree: out of memory: over what agents wrote git may allocate 32 MB")
	require.NoError(t, merge(600_000, nil), "the bound of every merge is large enough for this")
}
