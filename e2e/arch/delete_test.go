package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNothingIsDeletedAcrossMounts: os.RemoveAll, and RemoveAll of an os.Root, would delete an
// agent's files and refs through a mounted view. Only fusefs/fdtree deletes trees.
func TestNothingIsDeletedAcrossMounts(t *testing.T) {
	calls := 0
	for _, p := range list(t, "1", "./daemon/...", "./fusefs/...", "./lockd/...", "./netbridge/...", "./cgroup/...", "./cmd/...") {
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "RemoveAll" {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "fdtree" {
					calls++
					return true
				}
				t.Errorf("%s: RemoveAll of something else than fusefs/fdtree", files.Position(sel.Pos()))
				return true
			})
		}
	}
	require.Positive(t, calls, "the test sees calls at all")
}
