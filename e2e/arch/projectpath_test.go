package arch

import (
	"bytes"
	"go/ast"
	"go/printer"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// projectPath matches an expression whose value is the path of a project, or the link that leads to it.
var projectPath = regexp.MustCompile(`\bProjectPath\b|\blinkPath\(\)|\.Project\(\)|\b(ws|WS|w|req|info|st|state|c|r|spec|s|p|h)\.Project\b($|[^.(\w])|\b(Record|Project|rec|record|r|p|project)\.Path\b`)

// resolves matches the functions that resolve a path: those of libraries, and by their names those of polis.
var resolves = regexp.MustCompile(`^(os\.(Open|OpenFile|OpenRoot|OpenInRoot|Create|ReadFile|WriteFile|ReadDir|DirFS|CopyFS|Mkdir|MkdirAll|Remove|Rename|Symlink|Link|Readlink|Chmod|Chown|Lchown|Lstat|Stat|Truncate|Chtimes|Chdir)|` +
	`filepath\.(EvalSymlinks|WalkDir|Walk|Glob)|fdtree\.\w+|idmap\.\w+|overlayfs\.\w+|walk\.\w+|syscall\.\w+|store\.(Read|Write)Summed|` +
	`unix\.(Open|Openat|Openat2|OpenTree|Stat|Lstat|Fstatat|Statx|Statfs|Mount|Unmount|MoveMount|Chdir|Access|Faccessat|NameToHandleAt|Getxattr|Lgetxattr|Rename|Renameat2|Unlinkat|Linkat|Mkdirat|Readlinkat)|` +
	`([a-z]\w*\.)*([oO]pen\w*|\w+(Open|Tree|File|Files|Root)|ofProject|place|lookIn))$`)

// commandPaths are the fields of a command that name where it works.
var commandPaths = []string{"Dir", "WorkTree", "GitDir"}

// withProjectPath are the functions that may resolve the path of a project, and why.
var withProjectPath = map[string]string{
	"internal/pinned":                             "it is the package for that",
	"daemon/git/githooks/find.go:Find":            "git runs there as the owner of the project and reaches no more than the owner does",
	"daemon/git/githooks/find.go:find":            "it opens the directory of hooks that the owner configured, with the owner's rights",
	"daemon/shim/githooks.go:linkBeside":          "it is the text of a link for the sandbox",
	"daemon/merge/checkout.go:inside":             "git runs there as the owner of the project and reaches no more than the owner does",
	"daemon/workspace/placement/choose.go:Undo":   "it removes the link that polis made, in a directory of the workspace",
	"daemon/workspace/placement/choose.go:Choose": "it compares the text of the link and opens nothing",
	"daemon/workspace/placement/runas.go:RunAs":   "it reads the owner of the project of a new workspace; what is recorded is compared with it",
	"daemon/git/worktree/adopt.go:project":        "it asks whether anything is there, as the caller's request means it; Record.Check decides",
	"daemon/git/worktree/adopt.go:link":           "it makes the link, in a directory of the workspace",
	"daemon/git/worktree/adopt.go:clone":          "it makes the clone, in a directory of the workspace",
	"daemon/git/worktree/pin.go:record":           "it follows the link to what package pinned records next",
	"daemon/git/worktree/pin.go:Move":             "it asks whether the link is one, in a directory of the workspace",
	"daemon/git/worktree/up.go:source":            "it asks whether there is a project at all",
}

// TestTheProjectIsOpenedByItsRecord: the owner of a project can exchange its directory at any moment. Only package
// pinned resolves its path, compares what is there with the record, and returns a descriptor. The test follows a path
// through the variables of one function.
func TestTheProjectIsOpenedByItsRecord(t *testing.T) {
	used, seen := map[string]bool{}, 0
	for _, dir := range []string{"daemon", "fusefs", "cgroup", "cmd/polisd", "cmd/polis-shim"} {
		parsed(t, dir, func(path string, fset *token.FileSet, file *ast.File) {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				uses := pathUses(fset, f)
				seen += len(uses.paths)
				if len(uses.at) == 0 {
					continue
				}
				at := allowedFor(path, f.Name.Name)
				if at == "" {
					for _, u := range uses.at {
						t.Errorf("%s: it resolves the path of a project, which its owner can exchange: open it by its record (package pinned)", u)
					}
				}
				used[at] = true
			}
		})
	}
	for at := range withProjectPath {
		if !used[at] && at != "internal/pinned" {
			t.Errorf("%s resolves no path of a project any more: remove it from this test", at)
		}
	}
	require.Greater(t, seen, 20, "the test sees paths of projects")
}

// allowedFor returns the entry of withProjectPath for a function, "" if there is none.
func allowedFor(path, function string) string {
	for _, at := range []string{path + ":" + function, path[:strings.LastIndex(path, "/")]} {
		if withProjectPath[at] != "" {
			return at
		}
	}
	return ""
}

type uses struct {
	paths []string // expressions that are the path of a project
	at    []string // where one is resolved
}

// pathUses finds where a function resolves the path of a project.
func pathUses(fset *token.FileSet, f *ast.FuncDecl) (u uses) {
	text := func(n ast.Node) string {
		var b bytes.Buffer
		if err := printer.Fprint(&b, fset, n); err != nil {
			return ""
		}
		return b.String()
	}
	var named []string // variables that have the path, or one made of it
	tainted := func(e ast.Expr) bool {
		s := text(e)
		if projectPath.MatchString(s) {
			return true
		}
		return slices.ContainsFunc(named, func(v string) bool {
			return regexp.MustCompile(`(^|[^.\w])` + regexp.QuoteMeta(v) + `\b`).MatchString(s)
		})
	}
	for range 3 { // a variable of a variable
		ast.Inspect(f.Body, func(n ast.Node) bool {
			a, ok := n.(*ast.AssignStmt)
			if !ok || !slices.ContainsFunc(a.Rhs, func(e ast.Expr) bool { return isPath(e) && tainted(e) }) {
				return true
			}
			for _, l := range a.Lhs {
				if id, ok := l.(*ast.Ident); ok && id.Name != "_" && id.Name != "err" && !slices.Contains(named, id.Name) {
					named = append(named, id.Name)
				}
			}
			return true
		})
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.CallExpr:
			if f := text(v.Fun); !resolves.MatchString(f) || strings.HasPrefix(f, "pinned.") {
				return true
			}
			for _, a := range v.Args {
				if tainted(a) {
					u.at = append(u.at, fset.Position(a.Pos()).String()+": "+text(v.Fun)+"("+text(a)+")")
				}
			}
		case *ast.KeyValueExpr:
			if id, ok := v.Key.(*ast.Ident); ok && slices.Contains(commandPaths, id.Name) && tainted(v.Value) {
				u.at = append(u.at, fset.Position(v.Pos()).String()+": "+text(v))
			}
		case *ast.SelectorExpr:
			if projectPath.MatchString(text(v)) {
				u.paths = append(u.paths, text(v))
			}
		}
		return true
	})
	return u
}

// isPath reports whether an expression can have a path as its value: a call of something else than a function of
// paths has another value.
func isPath(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return true
	}
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return ok && (x.Name == "filepath" || x.Name == "path" || x.Name == "cmp") || f.Sel.Name == "linkPath" || f.Sel.Name == "Project"
	case *ast.Ident:
		return strings.HasPrefix(strings.ToLower(f.Name), "real") || f.Name == "string"
	}
	return false
}
