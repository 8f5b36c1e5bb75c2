package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lifts are the functions that may lift or widen the cage of a git, with the reason. Every other
// git command of the daemon runs in a cage.
var lifts = map[string]string{
	"daemon/merge/pullrequest/remotes.go ask Own":           "the project's own configuration, as its owner, read for that person's push",
	"daemon/merge/pullrequest/remotes.go reach Own":         "the configuration of the person who pushes, as the push has it",
	"daemon/merge/pullrequest/push.go run Own":              "push and ls-remote for the person who asked, in the shared repository",
	"daemon/merge/remote/transfer.go run Remote":            "push of the shared repository; its configuration is root's",
	"daemon/merge/remote/transfer.go fetch Remote":          "fetch of the internal repository, which no agent writes",
	"daemon/merge/remote/credential.go fill Remote":         "the owner's credential helpers, in the owner's project",
	"daemon/git/worktree/adopt.go clone Remote":             "the first copy of a project, before there is an agent",
	"daemon/git/maintain/maintain.go git Children":          "git verify-pack starts index-pack",
	"daemon/git/maintain/maintain.go packInternal Children": "git repack starts pack-objects, in the repository that no agent sees",
	"daemon/git/confine.go start Own":                       "where the cage is lifted",
	"daemon/git/confine.go start Remote":                    "where the cage is lifted",
	"daemon/git/confine.go start Children":                  "where the cage is widened",
	"daemon/git/environ.go environ Own":                     "the environment of the person",
	"daemon/git/runner.go Run Own":                          "a session of its own for the person's git",
}

// TestWhoLiftsTheCage: git over content of agents runs in a cage by default. Every caller that
// lifts it is listed here with the reason.
func TestWhoLiftsTheCage(t *testing.T) {
	fields := map[string]bool{"Own": true, "Remote": true, "Children": true}
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root(t), "daemon"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root(t), path)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if !isCmd(n.Type) {
						return true
					}
					for _, el := range n.Elts {
						kv, ok := el.(*ast.KeyValueExpr)
						require.True(t, ok, "%s: a git.Cmd names its fields", set.Position(n.Pos()))
						if key, ok := kv.Key.(*ast.Ident); ok && fields[key.Name] {
							found[rel+" "+f.Name.Name+" "+key.Name] = true
						}
					}
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						if sel, ok := left.(*ast.SelectorExpr); ok && fields[sel.Sel.Name] && mentionsGit(file) {
							found[rel+" "+f.Name.Name+" "+sel.Sel.Name] = true
						}
					}
				case *ast.SelectorExpr:
					// In package git itself, every use is checked.
					if x, ok := n.X.(*ast.Ident); ok && file.Name.Name == "git" && fields[n.Sel.Name] && x.Name == "c" {
						found[rel+" "+f.Name.Name+" "+n.Sel.Name] = true
					}
				}
				return true
			})
		}
		return nil
	})
	require.NoError(t, err)
	for at := range found {
		require.Contains(t, lifts, at, "this lifts the cage of a git: is it never over what an agent wrote? Then list it in lifts")
	}
	for at := range lifts {
		require.Contains(t, found, at, "listed, but not there any more")
	}
}

func isCmd(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "Cmd"
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && x.Name == "git" && e.Sel.Name == "Cmd"
	}
	return false
}

// mentionsGit reports whether a file imports daemon/git. In other files a field of that name
// belongs to another type.
func mentionsGit(f *ast.File) bool {
	for _, i := range f.Imports {
		if i.Path.Value == `"polis/daemon/git"` {
			return true
		}
	}
	return f.Name.Name == "git"
}
