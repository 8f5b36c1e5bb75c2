package arch

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"polis/daemon/api"
)

// TestEveryCodeIsReturned fails for a code of the reference that no program can return: its
// constant is only compared, is only in tables, or is only used in functions that nothing calls.
func TestEveryCodeIsReturned(t *testing.T) {
	p := loadPrograms(t)
	returned := p.returned()
	for _, c := range api.Codes() {
		if !returned[string(c.Code)] {
			var dead []string
			for name, f := range p.funcs {
				if f.codes[string(c.Code)] {
					dead = append(dead, name)
				}
			}
			t.Errorf("%s: no function that a program reaches returns it; unreachable ones: %v", c.Code, dead)
		}
	}
	require.Greater(t, len(p.reachable()), 2000, "most of the code is reachable")
}

// TestTheReferenceHasEveryCode: the constants of package api, their reference and the generated
// page have the same codes.
func TestTheReferenceHasEveryCode(t *testing.T) {
	var declared, listed, paged []string
	for c := range constants(t) {
		declared = append(declared, string(c))
	}
	for _, c := range api.Codes() {
		listed = append(listed, string(c.Code))
	}
	page, err := os.ReadFile(filepath.Join(root(t), "docs/errors.md"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		paged = append(paged, m[1])
	}
	require.ElementsMatch(t, declared, listed)
	require.ElementsMatch(t, declared, paged)
}

// notCodes are words of the documentation that have the form of a code.
var notCodes = []string{"IN_ATTRIB", "IN_CREATE", "IN_MODIFY", "IN_CLOSE_WRITE", "IN_DELETE", "IN_DELETE_SELF", "O_DIRECT", "O_TMPFILE", "RESOLVE_BENEATH", "RENAME_WHITEOUT", "DENIED_READ", "DENIED_WRITE", "RENAME_NOREPLACE", "RENAME_EXCHANGE",
	"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT", "GIT_AUTHOR_EMAIL", "SSH_AUTH_SOCK", "POLIS_SOCKET", "POLIS_MODEL", "POLIS_", "POLIS_WORKSPACE", "POLIS_TASK", "NO_COLOR", "GITLAB_TOKEN", "GH_TOKEN", "FUSE_NOTIFY_PRUNE",
	// Of the model gateway: variables, and codes in the errors of model services.
	"AIDER_OPENAI_API_BASE", "ANTHROPIC_API_BASE", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CODEX_API_KEY", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "HTTPS_PROXY", "HTTP_PROXY", "KIRO_API_KEY", "MODEL_BUDGET_SPENT", "MODEL_BUDGET_UNKNOWN", "MODEL_ENDPOINT_BUSY", "MODEL_NOT_ALLOWED", "MODEL_RATE_LIMITED", "MODEL_REPLAY_DIFFERS", "MODEL_REQUEST_REFUSED", "MODEL_SERVICE_FAILED", "NO_PROXY", "NPM_CONFIG_REGISTRY", "NPM_CONFIG_REPLACE_REGISTRY_HOST", "OPENAI_API_BASE", "OPENAI_API_KEY", "OPENAI_BASE_URL",
	"POLIS_SERVICE_NAME", "SERVICE_ENDPOINT_BUSY", "SERVICE_FAILED", "SERVICE_RATE_LIMITED", "SERVICE_REQUEST_REFUSED"}

// TestTheDocumentationNamesCodesThatExist in every page.
func TestTheDocumentationNamesCodesThatExist(t *testing.T) {
	codes := constants(t)
	pages, err := filepath.Glob(filepath.Join(root(t), "docs/*.md"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 8)
	named := 0
	for _, file := range append(pages, filepath.Join(root(t), "README.md")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`([A-Z]+_[A-Z_]*)`").FindAllStringSubmatch(string(text), -1) {
			if slices.Contains(notCodes, m[1]) {
				continue
			}
			named++
			require.Contains(t, codes, api.Code(m[1]), "%s names a code that does not exist; if it is none, notCodes has it", filepath.Base(file))
		}
	}
	require.Greater(t, named, 50)
}

// TestWhatCountsAsReturned is the positive control: a code that is only compared, looked up, or
// used in dead code is not returned.
func TestWhatCountsAsReturned(t *testing.T) {
	const text = `package main
type set []string
func (set) Contains(string) bool { return false }
const alias = "QUOTA"
type refusal struct{ code string }
type speaker interface{ say() string }
type one struct{}
func (one) say() string { return "HIDDEN" }
func (one) unsaid() string { return "TIMEOUT" }
var table = map[string]int{"FORBIDDEN": 1}
var first = refusal{"NOT_FOUND"}
func dead() string { return "INTERNAL" }
func deny(code string) refusal { return refusal{code: code} }
func helper() refusal { return refusal{code: alias} }
func main() {
	var s speaker = one{}
	f := helper
	switch s.say() {
	case "BAD_STATE":
		deny("BAD_TREE")
	}
	if s.say() == "UNAVAILABLE" || table["TOO_LARGE"] > 0 || (set{"BAD_REQUEST"}).Contains(f().code) {
		return
	}
}`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "main.go", text, 0)
	require.NoError(t, err)
	q := &packages.Package{Name: "main", PkgPath: module + "/fusefs/control", Syntax: []*ast.File{file},
		TypesInfo: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}}
	_, err = (&types.Config{}).Check(q.PkgPath, fset, q.Syntax, q.TypesInfo)
	require.NoError(t, err)
	p := &programs{funcs: map[string]*function{}, methods: map[string][]string{}}
	p.add(t, q, constants(t))
	require.Equal(t, []string{"BAD_TREE", "HIDDEN", "NOT_FOUND", "QUOTA"}, slices.Sorted(maps.Keys(p.returned())))
}

// function has what one function of the project refers to.
type function struct {
	calls map[string]bool // functions and methods, by their full names
	names map[string]bool // methods called through an interface, by name
	types map[string]bool // named types of ours
	codes map[string]bool // codes that it uses as a value
}

// programs is the code of the shipped programs.
type programs struct {
	funcs   map[string]*function
	methods map[string][]string // full names of the methods of a type
	roots   []string
}

// loadPrograms reads and type-checks all packages of the project that a program contains.
func loadPrograms(t *testing.T) *programs {
	var ours []string
	for _, q := range list(t, "1", "-deps", "./cmd/...") {
		if under(q.ImportPath, module) {
			ours = append(ours, q.ImportPath)
		}
	}
	pkgs, err := packages.Load(&packages.Config{Dir: root(t), BuildFlags: []string{"-tags=seccomp"}, Env: append(os.Environ(), "CGO_ENABLED=1"),
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo}, ours...)
	require.NoError(t, err)
	p := &programs{funcs: map[string]*function{}, methods: map[string][]string{}}
	codes := constants(t)
	for _, q := range pkgs {
		require.Empty(t, q.Errors)
		p.add(t, q, codes)
	}
	return p
}

// add records what the functions of a package refer to.
func (p *programs) add(t *testing.T, q *packages.Package, codes map[api.Code]string) {
	start := p.fn(q.PkgPath + " <variables>")
	p.roots = append(p.roots, q.PkgPath+" <variables>")
	for _, file := range q.Syntax {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				look(q, d, start, codes)
				continue
			}
			obj, ok := q.TypesInfo.Defs[f.Name].(*types.Func)
			require.True(t, ok)
			name := obj.FullName()
			look(q, f, p.fn(name), codes)
			if f.Recv != nil {
				of := typeName(obj.Signature().Recv().Type())
				p.methods[of] = append(p.methods[of], name)
			} else if f.Name.Name == "init" || f.Name.Name == "main" && q.Name == "main" {
				p.roots = append(p.roots, name)
			}
		}
	}
}

func (p *programs) fn(name string) *function {
	if p.funcs[name] == nil {
		p.funcs[name] = &function{calls: map[string]bool{}, names: map[string]bool{}, types: map[string]bool{}, codes: map[string]bool{}}
	}
	return p.funcs[name]
}

// typeName is the full name of a named type, or of what a pointer points to; else "".
func typeName(t types.Type) string {
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil {
		return n.Obj().Pkg().Path() + "." + n.Obj().Name()
	}
	return ""
}

// look records what a declaration refers to.
func look(q *packages.Package, d ast.Node, f *function, codes map[api.Code]string) {
	var path []ast.Node
	ast.Inspect(d, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		switch v := n.(type) {
		case *ast.Ident:
			switch obj := q.TypesInfo.Uses[v].(type) {
			case *types.Func:
				obj = obj.Origin()
				f.calls[obj.FullName()] = true
				if r := obj.Signature().Recv(); r != nil && types.IsInterface(r.Type()) {
					f.names[obj.Name()] = true
				}
			case *types.TypeName:
				f.types[typeName(obj.Type())] = true
			}
		}
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		if t := q.TypesInfo.Types[e].Type; t != nil {
			f.types[typeName(t)] = true
		}
		v := q.TypesInfo.Types[e].Value
		if v == nil || v.Kind() != constant.String || codes[api.Code(constant.StringVal(v))] == "" {
			return true
		}
		// An untyped string counts only in the leaves, which cannot import package api.
		isCode := typeName(q.TypesInfo.Types[e].Type) == module+"/daemon/api.Code"
		leaf := under(q.PkgPath, module+"/fusefs") || under(q.PkgPath, module+"/lockd")
		if (isCode || leaf) && q.PkgPath != module+"/daemon/api" && isValue(path) {
			f.codes[constant.StringVal(v)] = true
		}
		return true
	})
}

// isValue reports whether the last node of path is used as a value: not compared, looked up,
// declared or listed for a search.
func isValue(path []ast.Node) bool {
	for i := len(path) - 1; i > 0; i-- {
		at, above := path[i], path[i-1]
		switch v := above.(type) {
		case *ast.BinaryExpr:
			return v.Op == token.ADD
		case *ast.CaseClause:
			return false // what it does is statements, which come first
		case *ast.IndexExpr:
			return false
		case *ast.KeyValueExpr:
			if v.Key == at {
				return false
			}
		case *ast.CallExpr:
			s, ok := v.Fun.(*ast.SelectorExpr)
			return !ok || s.Sel.Name != "Contains" && s.Sel.Name != "ContainsFunc"
		case *ast.GenDecl:
			return v.Tok == token.VAR
		case ast.Stmt:
			return true
		}
	}
	return true
}

// returned has the codes that reachable functions use as a value.
func (p *programs) returned() map[string]bool {
	out := map[string]bool{}
	for name := range p.reachable() {
		maps.Copy(out, p.funcs[name].codes)
	}
	return out
}

// reachable has the functions that main, init and the values of variables lead to. An exported
// method counts as called if its type is used, because other modules call it through their
// interfaces.
func (p *programs) reachable() map[string]bool {
	live, named, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	work := slices.Clone(p.roots)
	for len(work) > 0 {
		name := work[len(work)-1]
		work = work[:len(work)-1]
		f := p.funcs[name]
		if live[name] || f == nil {
			continue
		}
		live[name] = true
		work = slices.AppendSeq(work, maps.Keys(f.calls))
		maps.Copy(named, f.names)
		maps.Copy(used, f.types)
		for of := range used {
			for _, m := range p.methods[of] {
				short := m[strings.LastIndexByte(m, '.')+1:]
				if !live[m] && (ast.IsExported(short) || named[short]) {
					work = append(work, m)
				}
			}
		}
	}
	return live
}
