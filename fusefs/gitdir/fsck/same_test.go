package fsck

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's own object names
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestVerdictsAreThoseOfGitFsck makes trees of awkward entries and compares:
// what git-fsck(1) finds wrong with one is refused, and nothing else.
func TestVerdictsAreThoseOfGitFsck(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
		out, err := cmd.CombinedOutput()
		var failed *exec.ExitError // fsck's way to say that it found something
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		return string(out)
	}
	run("init", "-q")
	blob := store(t, dir, "blob", nil)
	empty := store(t, dir, "tree", nil)
	verdicts := map[string]error{}
	trees := map[string][]byte{}
	gen := treeOf(blob, empty)
	for seed := range 800 {
		b := gen.Example(seed)
		id := fmt.Sprintf("%x", store(t, dir, "tree", b))
		verdicts[id], trees[id] = tree(b), b
	}
	refused := regexp.MustCompile(`(?m)^(?:error|warning) in tree ([0-9a-f]{40}): (\w+)`)
	git := map[string]string{}
	out := run("fsck", "--no-dangling")
	for _, m := range refused.FindAllStringSubmatch(out, -1) {
		// Old programs wrote zeros; a linked .gitattributes is passed over. git checks both out.
		if m[2] != "zeroPaddedFilemode" && m[2] != "gitattributesSymlink" {
			git[m[1]] += m[2] + " "
		}
	}
	bad := 0
	for id, err := range verdicts {
		if err != nil {
			bad++
		}
		require.Equal(t, git[id] != "", err != nil, "tree %q: git says %q, Tree says %v", trees[id], git[id], err)
	}
	require.Greater(t, bad, 100)
	require.Greater(t, len(verdicts)-bad, 100)
}

// treeOf draws trees: mostly sorted, of names that git or a file system takes
// for others.
func treeOf(blob, empty []byte) *rapid.Generator[[]byte] {
	name := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "a-", "a.b", "ab", "b", "c", "a0", "-", "...", "x\\y", ".gitattributes", "gitx"}),
		rapid.Custom(func(t *rapid.T) string {
			s := ""
			for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{".", "git", "GIT", "~1", "~2", "modules", "\u200c", "\ufeff", " ", ":", "\\", "gitmod", "gi7eba", "x", "\xff", "é"}), 1, 4).Draw(t, "parts") {
				s += part
			}
			return s
		}))
	mode := rapid.SampledFrom([]string{"100644", "100644", "100755", "40000", "40000", "120000", "040000", "160000", "100600"})
	return rapid.Custom(func(t *rapid.T) []byte {
		type entry struct{ mode, name string }
		var es []entry
		for range rapid.IntRange(1, 5).Draw(t, "entries") {
			es = append(es, entry{mode.Draw(t, "mode"), name.Draw(t, "name")})
		}
		if rapid.IntRange(0, 9).Draw(t, "sorted") > 0 {
			key := func(e entry) string {
				if e.mode == "40000" || e.mode == "040000" {
					return e.name + "/"
				}
				return e.name
			}
			sort.Slice(es, func(i, j int) bool { return key(es[i]) < key(es[j]) })
		}
		var b []byte
		for _, e := range es {
			id := blob
			if e.mode == "40000" || e.mode == "040000" {
				id = empty
			}
			b = append(append(b, e.mode+" "+e.name+"\x00"...), id...)
		}
		return b
	})
}

// store writes a loose object, whatever git thinks of it, and returns its name.
func store(t *testing.T, dir, kind string, body []byte) []byte {
	t.Helper()
	raw := append(fmt.Appendf(nil, "%s %d\x00", kind, len(body)), body...)
	sum := sha1.Sum(raw) //nolint:gosec // as above
	path := filepath.Join(dir, ".git", "objects", fmt.Sprintf("%x", sum[:1]), fmt.Sprintf("%x", sum[1:]))
	if _, err := os.Stat(path); err == nil {
		return sum[:]
	}
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, err := w.Write(raw)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, z.Bytes(), 0o444))
	return sum[:]
}
