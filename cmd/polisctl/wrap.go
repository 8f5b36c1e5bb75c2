package main

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"polis/internal/escape"
)

// narrowest is the least width in cells for which output is changed.
const narrowest = 20

// columns is the width of the terminal at standard output in cells: what the terminal says, else COLUMNS (POSIX, Base
// Definitions, 8.3), else 0, which is without bound.
func (a *app) columns() int {
	if w, _, err := term.GetSize(int(a.stdout.Fd())); err == nil && w > 0 {
		return w
	}
	w, err := strconv.Atoi(a.getenv("COLUMNS"))
	if err != nil || w < 0 {
		return 0
	}
	return w
}

// wrapped breaks a line at its spaces so that it fits on the terminal. Further lines are indented by so many cells, and
// at least deeper than the first: a text of an agent must not look like a line of its own. A word that is longer than a
// line is broken below a list only: elsewhere a path or a command stays whole, so that it can be copied.
// ansi.Wrap is not used because it also breaks at hyphens: "--json" would become two words.
func (p *page) wrapped(line string, indent int) string {
	if p.width < narrowest || ansi.StringWidth(line) <= p.width {
		return line
	}
	first := len(line) - len(strings.TrimLeft(line, " "))
	if indent = max(indent, first+2); indent > p.width/2 {
		indent = 2
	}
	next := "\n" + strings.Repeat(" ", indent)
	var b strings.Builder
	at, spaces := 0, 0
	for i, word := range strings.Split(line, " ") {
		if i > 0 {
			spaces++
		}
		if word == "" {
			continue
		}
		if p.list && ansi.StringWidth(word) > p.width-indent {
			b.WriteString(strings.Repeat(" ", spaces))
			at += spaces
			for ; ansi.StringWidth(word) > p.width-at; at = indent {
				part := ansi.Truncate(word, p.width-at, "")
				b.WriteString(part + next)
				word = word[len(part):]
			}
			b.WriteString(word)
			at, spaces = at+ansi.StringWidth(word), 0
			continue
		}
		n := ansi.StringWidth(word)
		if at > 0 && at+spaces+n > p.width {
			b.WriteString(next)
			at, spaces = indent, 0
		}
		b.WriteString(strings.Repeat(" ", spaces) + word)
		at, spaces = at+spaces+n, 0
	}
	return b.String()
}

// prose is a text of a person or a program with every kind of space as an ordinary one.
func prose(s string) string { return escape.Spaces(s) }
