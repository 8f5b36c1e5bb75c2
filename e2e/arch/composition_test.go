package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxDecisions is the most decisions in a function of package daemon, which only connects packages to
// each other.
const maxDecisions = 8

// deciding are the functions with more, and how many each may have. A number may only shrink: move
// what a function decides to a package of its own, where a test needs no daemon.
var deciding = map[string]int{
	"up":          16, // the order in which a workspace is made
	"closeShared": 13, // what is removed last
	"cycle":       14, // of the patrol
}

// TestTheCompositionDecidesLittle counts conditions, cases and loops in package daemon. A comparison
// of an error with nil is no decision.
func TestTheCompositionDecidesLittle(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root(t), "daemon", "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	most := map[string]int{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				most[f.Name.Name] = max(most[f.Name.Name], decisions(f))
			}
		}
	}
	for name, n := range most {
		if limit := max(maxDecisions, deciding[name]); n > limit {
			t.Errorf("daemon: %s has %d decisions, at most %d may be in a function of the composition: move them to the package that owns the rule", name, n, limit)
		}
	}
	for name := range deciding {
		if most[name] <= maxDecisions {
			t.Errorf("daemon: %s has %d decisions now: remove it from this test", name, most[name])
		}
	}
}

func decisions(f *ast.FuncDecl) (n int) {
	ast.Inspect(f, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.IfStmt:
			if c, ok := x.Cond.(*ast.BinaryExpr); ok && c.Op == token.NEQ {
				if with, ok := c.Y.(*ast.Ident); ok && with.Name == "nil" {
					return true
				}
			}
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		case *ast.ForStmt, *ast.RangeStmt:
			n++
		}
		return true
	})
	return n
}
