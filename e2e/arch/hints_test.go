package arch

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryHintIsTried requires, but for maxUntried of them, a row of testdata/hints.txt for every hint in the source. A row is
// a word, a tab and the hint:
//
//	e2e       a test of package e2e whose file is hints*_test.go does what the hint says
//	TestName  a test of that name does
//	advice    it names nothing that can be run: no command of polisctl, no option
//	fault     a fault, a race or another version of polis brings it about, which no test does;
//	          TestHintsNameCommandsThatExist requires that what it names exists
//	host      it names a command or a file of the administrator's that no test changes
func TestEveryHintIsTried(t *testing.T) {
	rows := hintRows(t)
	tried, tests := literals(t, "e2e/hints*_test.go"), testNames(t)
	found := map[string]bool{}
	var untried []string
	for _, h := range hintsOf(t) {
		found[h.text] = true
		how, ok := rows[h.text]
		switch {
		case !ok:
			untried = append(untried, h.at+": "+h.text)
		case how == "e2e":
			if !tried[h.text] {
				t.Errorf("%s: %q is in no e2e/hints*_test.go", h.at, h.text)
			}
		case how == "advice" || how == "host" || how == "fault":
			if regexp.MustCompile(`polisctl [a-z]|(^|[ (])--[a-z]`).MatchString(h.text) && how == "advice" {
				t.Errorf("%s: %q names a command or an option: a test must try it", h.at, h.text)
			}
		case !tests[how]:
			t.Errorf("%s: %q is tried by %s, which does not exist", h.at, h.text, how)
		}
	}
	for text := range rows {
		if !found[text] {
			t.Errorf("testdata/hints.txt: %q is no hint of the source any more", text)
		}
	}
	require.Greater(t, len(found), 200, "the test sees the hints")
	for text, how := range rows {
		if how == "fault" {
			untried = append(untried, "fault: "+text)
		}
	}
	slices.Sort(untried)
	require.LessOrEqual(t, len(untried), maxUntried, "a new hint is tried in e2e/hints*_test.go and has a row in testdata/hints.txt; no test tries these:\n%s", strings.Join(untried, "\n"))
}

// maxUntried bounds the hints that no test tries. It must only decrease.
const maxUntried = 1

func hintRows(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/hints.txt")
	require.NoError(t, err)
	defer f.Close()
	rows := map[string]string{}
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		if sc.Text() == "" || strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		how, text, ok := strings.Cut(sc.Text(), "\t")
		require.True(t, ok, "%q", sc.Text())
		text, err = strconv.Unquote(`"` + text + `"`)
		require.NoError(t, err, sc.Text())
		require.NotContains(t, rows, text, "twice")
		rows[text] = how
	}
	require.NoError(t, sc.Err())
	return rows
}

// hintText is a hint at the place where it is made. Inserted values are %s, or as in its format.
type hintText struct{ text, at string }

var hintName = regexp.MustCompile(`(?i)hint`)

// hintsOf finds the texts that become hints: arguments of WithHint, values of fields, variables and
// constants with hint in their name, and what functions with hint in their name return.
func hintsOf(t *testing.T) (out []hintText) {
	t.Helper()
	parsed(t, "", func(path string, fset *token.FileSet, file *ast.File) {
		add := func(e ast.Expr) {
			for _, text := range texts(e) {
				if strings.Contains(text, " ") && strings.Trim(text, "%s ") != "" {
					out = append(out, hintText{text, path + ":" + strconv.Itoa(fset.Position(e.Pos()).Line)})
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch v := n.(type) {
			case *ast.CallExpr:
				if s, ok := v.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "WithHint" {
					add(v.Args[0])
				}
			case *ast.KeyValueExpr:
				if id, ok := v.Key.(*ast.Ident); ok && hintName.MatchString(id.Name) {
					add(v.Value)
				}
			case *ast.AssignStmt:
				for i, to := range v.Lhs {
					if hintName.MatchString(lastName(to)) && i < len(v.Rhs) {
						add(v.Rhs[i])
					}
				}
			case *ast.ValueSpec:
				for i, id := range v.Names {
					if hintName.MatchString(id.Name) && i < len(v.Values) {
						add(v.Values[i])
					}
				}
			case *ast.FuncDecl:
				if hintName.MatchString(v.Name.Name) && v.Name.Name != "WithHint" && v.Body != nil {
					ast.Inspect(v.Body, func(n ast.Node) bool {
						if r, ok := n.(*ast.ReturnStmt); ok {
							for _, e := range r.Results {
								add(e)
							}
						}
						return true
					})
				}
			}
			return true
		})
	})
	slices.SortFunc(out, func(a, b hintText) int { return strings.Compare(a.at, b.at) })
	return slices.CompactFunc(out, func(a, b hintText) bool { return a == b })
}

func lastName(e ast.Expr) string {
	switch v := e.(type) {
	case *ast.Ident:
		return v.Name
	case *ast.SelectorExpr:
		return v.Sel.Name
	}
	return ""
}

// texts are the strings that an expression can be made of.
func texts(e ast.Expr) (out []string) {
	switch v := e.(type) {
	case *ast.BasicLit, *ast.BinaryExpr:
		if s, ok := joined(e); ok {
			return []string{s}
		}
	case *ast.CallExpr: // cmp.Or(a, b), fmt.Sprintf(format, ...)
		for i, a := range v.Args {
			if s, ok := v.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" && i > 0 {
				break
			}
			out = append(out, texts(a)...)
		}
	case *ast.CompositeLit:
		for _, el := range v.Elts {
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				el = kv.Value
			}
			out = append(out, texts(el)...)
		}
	}
	return out
}

func joined(e ast.Expr) (string, bool) {
	switch v := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(v.Value)
		return s, err == nil && v.Kind == token.STRING
	case *ast.BinaryExpr:
		a, aok := joined(v.X)
		b, bok := joined(v.Y)
		if v.Op != token.ADD || !aok && !bok {
			return "%s", false
		}
		return a + b, true
	}
	return "%s", false
}

// parsed calls do for the files of the module below dir that are no tests, with dir the module's
// root if it is empty.
func parsed(t *testing.T, dir string, do func(path string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	top := root(t)
	require.NoError(t, filepath.WalkDir(filepath.Join(top, dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == "e2e" || e.Name() == "polis-tui" || e.Name() == "bin" || strings.HasPrefix(e.Name(), ".")) {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		do(rel, fset, file)
		return err
	}))
}

// literals are the strings in the files of a pattern.
func literals(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), pattern))
	require.NoError(t, err)
	out := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					out[s] = true
				}
			}
			return true
		})
	}
	return out
}

// testNames are the tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(root(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = true
		}
		return err
	}))
	return out
}
