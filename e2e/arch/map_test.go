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

// TestTheMapIsTrue: every file and function that docs/architecture.md names exists.
func TestTheMapIsTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/architecture.md"))
	require.NoError(t, err)
	files, functions := 0, 0
	for _, m := range named.FindAllStringSubmatch(string(page), -1) {
		path := filepath.Join(root(t), m[1])
		fi, err := os.Stat(path)
		if err != nil {
			t.Errorf("docs/architecture.md names %s: %v", m[1], err)
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
			t.Errorf("docs/architecture.md names %s, and %s has no such function", m[0], m[1])
		}
		functions++
	}
	require.Greater(t, files, 60)
	require.Greater(t, functions, 15)
}
