package cone

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDirectoriesOfAConeAreClean(t *testing.T) {
	c, err := New("b/", "a/x", "a/x/deep", "b", "c")
	require.NoError(t, err)
	require.Equal(t, []string{"a/x", "b", "c"}, c.Dirs())
	for _, dir := range []string{"", "/", "/a", "a//b", "./a", "a/.", "..", "a/../b", ".git", "a/.GIT/b", "a\nb", "a\x00", strings.Repeat("x", 5000)} {
		_, err := New(dir)
		require.Error(t, err, "%q", dir)
	}
	_, err = New(make([]string, MaxDirs+1)...)
	require.ErrorContains(t, err, "at most 1000")
	var long []string
	for i := range 40 {
		long = append(long, strings.Repeat(string(rune('A'+i)), 2000))
	}
	_, err = New(long...)
	require.ErrorContains(t, err, "at most 65536")
}

func TestAConeContainsWhatGitChecksOut(t *testing.T) {
	c, err := New("a/b", "z")
	require.NoError(t, err)
	for file, want := range map[string]bool{
		"top": true, "a/file": true, "a/b/file": true, "a/b/c/d/file": true, "z/file": true,
		"a/c/file": false, "ab/file": false, "y/file": false, "zz/file": false, "a/bb/file": false,
	} {
		require.Equal(t, want, c.Contains(file), file)
	}
}

func TestOtherPatternsAreNoCone(t *testing.T) {
	for _, text := range []string{
		"", "/*\n", "*.go\n", "/*\n!/*/\nsrc\n", "/*\n!/*/\n/src\n", "/*\n!/*/\n!/src/\n", "!/*/\n/*\n", "/*\n!/*/\n/*/\n", "/*\n!/*/\n/a?/\n",
		"/*\n!/*/\n/a/b/\n", "/*\n!/*/\n!/a/*/\n/a/\n", "/*\n!/*/\n/../\n", "/*\n!/*/\n/a/\n!/a/*/\n/a/\n",
		"/*\n!/*/\n" + strings.Repeat("#", MaxText), "\x00\x01garbage",
	} {
		_, err := Parse(text)
		require.ErrorIs(t, err, ErrNoCone, "%.40q", text)
	}
	c, err := Parse("# a comment\n/*\n!/*/\n\n/a/\n!/a/*/\n/a/b/\n")
	require.NoError(t, err)
	require.Equal(t, []string{"a/b"}, c.Dirs())
	c, err = Parse("/*\n!/*/\n")
	require.NoError(t, err)
	require.Empty(t, c.Dirs())
}

// names draws directories whose components have what means something in a pattern.
func names(t *rapid.T) []string {
	part := rapid.StringMatching(`[abAB .#!*?\[\]\\-]{1,4}`).Filter(func(s string) bool { return s != "." && s != ".." })
	dir := rapid.Map(rapid.SliceOfN(part, 1, 4), func(p []string) string { return path.Join(p...) })
	return rapid.SliceOfN(dir, 0, 6).Draw(t, "dirs")
}

func TestPatternsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := New(names(t)...)
		require.NoError(t, err)
		again, err := Parse(c.Patterns())
		require.NoError(t, err, "%q", c.Patterns())
		require.Equal(t, c.Dirs(), again.Dirs(), "%q", c.Patterns())
	})
}

// git writes the same text for the same directories, and checks the same files out.
func TestPatternsAreThoseOfGit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=u", "-c", "user.email=u@x"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	git("init", "-q")
	files := []string{"top", "a/f", "a/b/f", "a/b/c/f", "a/c/f", "ab/f", "s p/f", "st*r/x/f", "st*r/f", "q?/f", "[x]/y/f", `b\s/f`, "z/f"}
	for _, f := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, path.Dir(f)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte(f), 0o600))
	}
	git("add", ".")
	git("commit", "-qm", "all")
	for _, dirs := range [][]string{{}, {"a"}, {"a/b"}, {"a/b", "z"}, {"a/b/c", "ab"}, {"s p", "st*r/x"}, {"q?", "[x]/y", `b\s`}, {"a", "a/b"}} {
		c, err := New(dirs...)
		require.NoError(t, err)
		git(append([]string{"sparse-checkout", "set", "--cone", "--skip-checks"}, dirs...)...)
		text, err := os.ReadFile(filepath.Join(dir, ".git/info/sparse-checkout"))
		require.NoError(t, err)
		require.Equal(t, string(text), c.Patterns())
		for _, f := range files {
			_, err := os.Lstat(filepath.Join(dir, f))
			require.Equal(t, err == nil, c.Contains(f), "%q in %q", f, dirs)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "/*\n!/*/\n", "/*\n!/*/\n/a/\n!/a/*/\n/a/b\\*/\n", "/*\n!/*/\n/a/\n\r\n", "!"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			require.ErrorIs(t, err, ErrNoCone)
			return
		}
		again, err := Parse(c.Patterns())
		require.NoError(t, err)
		require.Equal(t, c.Dirs(), again.Dirs())
		for _, dir := range c.Dirs() {
			require.True(t, c.Contains(dir+"/file"))
		}
	})
}
