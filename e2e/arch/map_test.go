package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// named is a path in backticks, and a function in it: `dir/file.go:Function`.
var named = regexp.MustCompile("`((?:cmd|cgroup|daemon|docs|e2e|fusefs|internal|lockd|netbridge|packaging|scripts|units)(?:/[A-Za-z0-9_.]+)*)(?::([A-Za-z]+))?`")

// TestTheMapIsTrue: every file and function that the pages for contributors name exists.
func TestTheMapIsTrue(t *testing.T) {
	t.Run("architecture", func(t *testing.T) { mapIsTrue(t, "docs/architecture.md", 40, 15) })
	t.Run("where", func(t *testing.T) { mapIsTrue(t, "docs/where.md", 200, 150) })
	t.Run("contributing", func(t *testing.T) { mapIsTrue(t, "CONTRIBUTING.md", 10, 0) })
}

// mapIsTrue checks a page that names at least so many files and functions.
func mapIsTrue(t *testing.T, name string, minFiles, minFunctions int) {
	page, err := os.ReadFile(filepath.Join(root(t), name))
	require.NoError(t, err)
	files, functions := 0, 0
	for _, m := range named.FindAllStringSubmatch(string(page), -1) {
		path := filepath.Join(root(t), m[1])
		fi, err := os.Stat(path)
		if err != nil {
			t.Errorf("%s names %s: %v", name, m[1], err)
			continue
		}
		files++
		if m[2] == "" {
			continue
		}
		require.False(t, fi.IsDir(), m[0])
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if !strings.Contains(string(text), "func "+m[2]+"(") && !regexp.MustCompile(`func \([^)]*\) `+m[2]+`\(`).Match(text) {
			t.Errorf("%s names %s, and %s has no such function", name, m[0], m[1])
		}
		functions++
	}
	require.GreaterOrEqual(t, files, minFiles)
	require.GreaterOrEqual(t, functions, minFunctions)
}
