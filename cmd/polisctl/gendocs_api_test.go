package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"polis/daemon/api/wire"
)

const apiDoc = "docs/api.md"

// apiPage returns docs/api.md with new tables: the events, from the comments of their types, and
// the routes of the sockets of a shim.
func apiPage(top string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(top, apiDoc))
	if err != nil {
		return nil, err
	}
	events, err := eventTables(filepath.Join(top, "daemon/api/events.go"))
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"events":                     events,
		"routes of a sandbox":        routeTable(wire.SandboxRoutes()),
		"routes of shims":            routeTable(wire.ControlRoutes()),
		"routes of shims (polisctl)": routeTable(wire.TerminalRoutes()),
	} {
		if page, err = betweenMarks(page, name, []byte(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", apiDoc, err)
		}
	}
	return page, nil
}

func routeTable(routes []wire.Route) string {
	var b strings.Builder
	b.WriteString("| route | meaning |\n|---|---|\n")
	for _, r := range routes {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Pattern, r.About)
	}
	return b.String()
}

// eventTables reads the types of events with their comments. Each group of constants is a table.
func eventTables(file string) (string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, d := range f.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n| type | meaning |\n|---|---|\n", strings.TrimSuffix(strings.TrimSpace(group.Doc.Text()), "."))
		for _, s := range group.Specs {
			v := s.(*ast.ValueSpec)
			if v.Doc == nil {
				return "", errors.New(v.Names[0].Name + " has no comment")
			}
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.Join(strings.Fields(v.Doc.Text()), " "))
		}
	}
	return strings.TrimPrefix(b.String(), "\n"), nil
}
