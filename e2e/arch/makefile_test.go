package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The lists of tests in the Makefile name tests that exist: go test runs the others without a word.
func TestTheMakefileNamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	require.NoError(t, err)
	tests := map[string]string{}
	for dir, pattern := range map[string]string{"e2e": "../*_test.go", "fusefs": "../../fusefs/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			tests[dir] += string(b)
		}
	}
	for list, dir := range map[string]string{"FRESH": "e2e", "LAYERED": "e2e", "OVERLAID": "fusefs"} {
		m := regexp.MustCompile(`(?m)^` + list + ` = \^\(([A-Za-z0-9|]+)\)\$\$$`).FindSubmatch(text)
		require.NotNil(t, m, "the Makefile has no list %s", list)
		for _, name := range strings.Split(string(m[1]), "|") {
			require.Contains(t, tests[dir], "func "+name+"(t *testing.T)", "%s of the Makefile", list)
		}
	}
}
