package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestLogMessagesHaveOneStyle: a message is a fixed noun phrase that states a fact ("state not
// saved"), so that it can be searched and counted. Attributes have the variable parts, and an error
// is always err.
func TestLogMessagesHaveOneStyle(t *testing.T) {
	calls := 0
	for _, p := range list(t, "1", "./daemon/...", "./fusefs/...", "./lockd/...", "./netbridge/...", "./cgroup/...", "./cmd/...") {
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !logs(call) {
					return true
				}
				calls++
				for _, fault := range logFaults(call) {
					t.Errorf("%s: %s", files.Position(call.Pos()), fault)
				}
				return true
			})
		}
	}
	require.Greater(t, calls, 100, "the test sees calls at all")
}

func TestWhatTheStyleOfLogMessagesRefuses(t *testing.T) {
	for text, fault := range map[string]string{
		`log.Warn("state not saved", "agent", a, "op", "save", "err", err)`: "",
		`log.Warn("IPv4 forwarding on", "path", p)`:                         "",
		`s.Log.Warn(text)`:                           "not a literal",
		`s.Log.Warn("State not saved")`:              "lower case",
		`s.Log.Warn("state not saved.")`:             "full stop",
		`s.Log.Warn("the state is not saved")`:       "article",
		`s.Log.Warn("save state", "err", err)`:       "imperative",
		`s.Log.Warn("state lost", "error", err)`:     "key",
		`s.Log.Warn("state lost", key, err)`:         "key",
		`s.Log.Warn("state lost", slog.Any(k, err))`: "key",
	} {
		e, err := parser.ParseExpr(text)
		require.NoError(t, err)
		call := e.(*ast.CallExpr)
		require.True(t, logs(call), text)
		faults := logFaults(call)
		if fault == "" {
			require.Empty(t, faults, text)
			continue
		}
		require.Len(t, faults, 1, text)
		require.Contains(t, faults[0], fault, text)
	}
}

// logs reports whether a call is one of a method of a slog.Logger, by its names.
func logs(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, sel.Sel.Name) {
		return false
	}
	on := ""
	switch x := sel.X.(type) {
	case *ast.Ident:
		on = x.Name
	case *ast.SelectorExpr:
		on = x.Sel.Name
	}
	return slices.Contains([]string{"log", "Log", "lg", "logger", "slog"}, on)
}

// imperatives begin messages that name the attempt instead of the fact.
var imperatives = strings.Fields(`accept adopt ask clear close delete find give keep let measure note notify remove restore
	save stop take tell undo unmap wait write`)

func logFaults(call *ast.CallExpr) (faults []string) {
	text, ok := literal(call.Args[0])
	if !ok {
		return []string{"the message is not a literal: what varies is an attribute"}
	}
	first, _, _ := strings.Cut(text, " ")
	r, size := utf8.DecodeRuneInString(text)
	second, _ := utf8.DecodeRuneInString(text[size:])
	switch {
	case unicode.IsUpper(r) && !unicode.IsUpper(second):
		faults = append(faults, "the message does not begin in lower case: "+text)
	case strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!"):
		faults = append(faults, "the message ends with a full stop: "+text)
	case first == "the" || first == "a" || first == "an":
		faults = append(faults, "the message begins with an article; it is a noun phrase: "+text)
	case slices.Contains(imperatives, first):
		faults = append(faults, "the message is an imperative; it says what is the case (\"state not saved\"): "+text)
	}
	for i := 1; i < len(call.Args); {
		if attr, ok := call.Args[i].(*ast.CallExpr); ok { // slog.Any and so on
			if len(attr.Args) == 2 {
				faults = append(faults, keyFault(attr.Args[0])...)
			}
			i++
			continue
		}
		if call.Ellipsis.IsValid() && i == len(call.Args)-1 {
			break
		}
		faults = append(faults, keyFault(call.Args[i])...)
		i += 2
	}
	return faults
}

func keyFault(e ast.Expr) []string {
	key, ok := literal(e)
	switch {
	case !ok:
		return []string{"the key of an attribute is not a literal"}
	case slices.Contains([]string{"error", "e", "file", "operation"}, key):
		return []string{"the key " + strconv.Quote(key) + " is not one of the fixed agent, op, path and err"}
	}
	return nil
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil && s != ""
}
