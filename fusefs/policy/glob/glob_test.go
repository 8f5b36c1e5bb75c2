package glob

import (
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The reference is git itself: one pattern in .gitignore, many paths.
func TestMatchAgreesWithGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("git is missing")
		}
		t.Skip("git is missing")
	}
	dir := t.TempDir()
	require.NoError(t, exec.Command("git", "-C", dir, "init", "-q").Run())
	piece := rapid.SampledFrom([]string{"a", "b", "ab", "*", "?", "**", "a*", "*b", "[ab]", "[!a]b", "a?", `\*`, "[]a]", "[a-b]*", "a**b", "[[:alpha:]]", "-", "[a-]"})
	name := rapid.SampledFrom([]string{"a", "b", "ab", "aab", "abb", "*", "]", "1", "-", "axb"})
	rapid.Check(t, func(rt *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(rt, "pieces"), "/")
		if rapid.Bool().Draw(rt, "anchored") {
			pattern = "/" + pattern
		}
		p, err := Compile(pattern)
		require.NoError(rt, err, pattern)
		require.NoError(rt, os.WriteFile(dir+"/.gitignore", []byte(pattern+"\n"), 0o600))
		var paths []string
		for range 30 {
			paths = append(paths, strings.Join(rapid.SliceOfN(name, 1, 4).Draw(rt, "path"), "/"))
		}
		cmd := exec.Command("git", "-C", dir, "check-ignore", "--no-index", "-z", "--stdin")
		cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			rt.Fatal(err)
		}
		ignored := map[string]bool{}
		for s := range strings.SplitSeq(string(out), "\x00") {
			ignored[s] = true
		}
		for _, path := range paths {
			require.Equal(rt, ignored[path], p.Covers(path, false), "pattern %q path %q", pattern, path)
		}
	})
}

func TestMayMatchBelowNeverReportsNoTooOften(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b", "*", "**", "a*", "[ab]"})
	name := rapid.SampledFrom([]string{"a", "b", "ab"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(t, "pieces"), "/")
		if rapid.Bool().Draw(t, "anchored") {
			pattern = "/" + pattern
		}
		p, err := Compile(pattern)
		require.NoError(t, err)
		dir := strings.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "dir"), "/")
		below := dir + "/" + strings.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "below"), "/")
		if p.Covers(below, false) {
			require.True(t, p.MayMatchBelow(dir), "%q covers %q", pattern, below)
		}
	})
}

// No pattern is expensive: an agent chooses the name, a repository the pattern.
func TestMatchingIsBounded(t *testing.T) {
	p, err := Compile(strings.Repeat("*a", 100) + "b")
	require.NoError(t, err)
	require.False(t, p.Match(strings.Repeat("a", 255), false))
	p, err = Compile(strings.Repeat("**/a/", 200) + "b")
	require.NoError(t, err)
	require.False(t, p.Match(strings.Repeat("a/", 2000)+"c", false))
}

func FuzzCompileAndMatch(f *testing.F) {
	f.Add("a/**/b*[!c]", "a/x/bz", true)
	f.Add("[", "[", false)
	f.Add("[[:x]", "x", false)
	f.Fuzz(func(t *testing.T, pattern, path string, dir bool) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		if p.Match(path, dir) {
			require.True(t, p.Covers(path, dir), "exact match must be covered")
		}
		if p.Covers(path, dir) {
			require.True(t, p.CoversTree(path, dir))
		}
		if !fs.ValidPath(path) || path == "." || len(path) > MaxLen/2-1 {
			return
		}
		only, err := Compile("/" + regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(path, `\$0`)) // the path alone
		if err != nil {
			require.ErrorIs(t, err, ErrNUL)
			return
		}
		require.True(t, only.Match(path, dir))
		if Contains(p, only) {
			require.True(t, p.Covers(path, false), "what is contained is covered")
		}
		if p.Covers(path, false) {
			require.True(t, Overlap(p, only) && Overlap(only, p))
			for i, c := range path {
				if c == '/' {
					require.True(t, p.MayMatchBelow(path[:i]))
				}
			}
		}
	})
}
