package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	hintCommand = regexp.MustCompile(`polisctl((?: +[a-z][a-z-]*)+)`)
	hintFlag    = regexp.MustCompile(`polisctl [^,;:()]*?--([a-z][a-z-]+)`)
)

// TestHintsNameCommandsThatExist reads the texts of every WithHint call: the commands and flags in
// them are those of polisctl.
func TestHintsNameCommandsThatExist(t *testing.T) {
	root := new(app).root()
	seen := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "WithHint" || len(call.Args) == 0 {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			require.NoError(t, err)
			for _, m := range hintCommand.FindAllStringSubmatchIndex(text, -1) {
				words, rest := strings.Fields(text[m[2]:m[3]]), text[m[0]:]
				if words[0] == "and" {
					continue // polisctl and polisd
				}
				cmd, _, err := root.Find(words[:1])
				if err != nil || cmd == root {
					t.Errorf("%s: %q: polisctl has no command %q", path, text, words[0])
					continue
				}
				seen++
				if sub, _, err := root.Find(words); err == nil {
					cmd = sub
				}
				if cmd.HasSubCommands() && !cmd.Runnable() && len(words) > 1 {
					t.Errorf("%s: %q: %s has no command %q", path, text, cmd.CommandPath(), words[1])
				}
				if f := hintFlag.FindStringSubmatch(rest); f != nil && strings.HasPrefix(f[0], text[m[0]:m[1]]) &&
					cmd.Flags().Lookup(f[1]) == nil && cmd.InheritedFlags().Lookup(f[1]) == nil {
					t.Errorf("%s: %q: %s has no flag --%s", path, text, cmd.CommandPath(), f[1])
				}
			}
			return true
		})
		return nil
	}))
	require.Greater(t, seen, 50, "the test sees the hints")
}
