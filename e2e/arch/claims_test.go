package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	claimRow  = regexp.MustCompile(`(?m)^\| ((?:H|Pi|Q|Theorem)[0-9]) \|.*$`)
	claimTest = regexp.MustCompile("`([a-z0-9_/]+_test\\.go):(TestSeed002_[A-Za-z0-9_]+)`")
	claimFunc = regexp.MustCompile(`(?m)^func (TestSeed002_[A-Za-z0-9_]+)\(t \*testing\.T\)`)
)

// TestEveryClaimHasATest: docs/security.md lists each claim of seed 002 with at least one test whose name has
// the claim's, the tests exist, and no such test is missing there.
func TestEveryClaimHasATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/security.md"))
	require.NoError(t, err)
	var claims []string
	listed := map[string]bool{}
	for _, row := range claimRow.FindAllStringSubmatch(string(page), -1) {
		claims = append(claims, row[1])
		tests := claimTest.FindAllStringSubmatch(row[0], -1)
		require.NotEmpty(t, tests, "%s has no test", row[1])
		for _, m := range tests {
			require.True(t, strings.HasPrefix(m[2], "TestSeed002_"+row[1]+"_"), "%s is no test of %s", m[2], row[1])
			text, err := os.ReadFile(filepath.Join(root(t), m[1]))
			require.NoError(t, err)
			require.Contains(t, string(text), "func "+m[2]+"(t *testing.T)", m[1])
			listed[m[2]] = true
		}
	}
	require.Equal(t, strings.Fields("H1 H2 H3 H4 Pi1 Pi2 Pi3 Pi4 Pi5 Pi6 Q1 Q2 Q3 Q4 Theorem1 Theorem2 Theorem3"), claims)
	require.NoError(t, filepath.WalkDir(root(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && strings.HasPrefix(e.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range claimFunc.FindAllStringSubmatch(string(text), -1) {
			require.True(t, listed[m[1]], "%s has %s, which docs/security.md does not list", path, m[1])
		}
		return nil
	}))
}
