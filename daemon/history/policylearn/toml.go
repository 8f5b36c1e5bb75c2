package policylearn

import (
	"fmt"
	"strings"
	"unicode"

	"polis/internal/tomledit"
)

// List is a named list of a table.
type List struct {
	Name   string
	Values []string
}

// Table is a table of a configuration file.
type Table struct {
	Name  string
	Lists []List
	// Lines come first, as they are.
	Lines []string
}

// TOML returns comments and tables as text. Lists that are nil are left out. Whatever a value contains, it
// is one string on one line, in printable characters.
func TOML(comments []string, tables ...Table) string {
	var b strings.Builder
	for _, c := range comments {
		b.WriteString(strings.TrimRight("# "+printable(c), " ") + "\n")
	}
	for i, t := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[%s]\n", t.Name)
		for _, l := range t.Lines {
			b.WriteString(l + "\n")
		}
		for _, l := range t.Lists {
			switch {
			case l.Values == nil:
			case len(l.Values) == 1:
				fmt.Fprintf(&b, "%s = [%s]\n", l.Name, Quote(l.Values[0]))
			default:
				fmt.Fprintf(&b, "%s = [\n", l.Name)
				for _, v := range l.Values {
					b.WriteString("  " + Quote(v) + ",\n")
				}
				b.WriteString("]\n")
			}
		}
	}
	return b.String()
}

// Quote is tomledit.Quote.
func Quote(s string) string { return tomledit.Quote(s) }

// printable replaces what is not printable in a comment.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
}
