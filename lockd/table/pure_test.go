package table

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table does no I/O, takes no lock and starts nothing: it has no means to.
func TestTableIsPure(t *testing.T) {
	allowed := []string{"cmp", "crypto/subtle", "errors", "fmt", "slices", "strings", "time"}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range f.Imports {
			require.Contains(t, allowed, strings.Trim(i.Path.Value, `"`), name)
		}
	}
}
