package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"polis/daemon/api"
)

// The columns of the table of findings.
const (
	pageWidth = 80
	nameAt    = 8
	foundAt   = 32
)

// findings prints rows as a table of 80 columns. What to do follows a row, in words and then as a command, which is not
// broken within a word.
func findings(p *page, rows []api.Finding) {
	colors := map[api.Works]paint{api.WorksOK: green, api.WorksPartly: yellow, api.WorksNo: red}
	area := ""
	for _, r := range rows {
		if r.Area != area {
			area = r.Area
			p.row(bold, "WORKS", strings.ToUpper(clean(area)), "FOUND")
		}
		for i, line := range wrap(clean(r.Found), pageWidth-foundAt) {
			if i == 0 {
				p.row(colors[r.Works], string(r.Works), r.Name, line)
			} else {
				p.row(plain, "", "", line)
			}
		}
		p.marked("means: ", r.Cost)
		p.marked("to do: ", r.Fix)
		if r.Command != "" {
			p.command(strings.Repeat(" ", nameAt)+"$ ", r.Command)
		}
		if r.NoCommand != "" {
			p.marked("       ", "(no command does it: "+r.NoCommand+")")
		}
	}
}

// row prints a line of the table; only works is in color.
func (p *page) row(color paint, works, name, found string) {
	works = clean(works)
	pad := strings.Repeat(" ", max(1, nameAt-utf8.RuneCountInString(works)))
	fmt.Fprintf(p.w, "%s%s%-*s %s\n", p.paint(color, works), pad, foundAt-nameAt-1, clean(name), clean(found))
}

// marked prints text below a row, with a mark before its first line.
func (p *page) marked(mark, text string) {
	if text == "" {
		return
	}
	for _, line := range wrap(clean(text), pageWidth-nameAt-len(mark)) {
		p.line("%*s%s%s", nameAt, "", mark, line)
		mark = strings.Repeat(" ", len(mark))
	}
}

// command prints a command line for a shell, in several lines if it is long: they are one command for sh(1).
func (p *page) command(indent, text string) {
	lines := wrapWords(shellWords(clean(text)), pageWidth-len(indent)-2)
	for i, line := range lines {
		if i < len(lines)-1 {
			line += ` \`
		}
		if i > 0 {
			indent = strings.Repeat(" ", len(indent))
		}
		p.text(indent + line)
	}
}

// wrap breaks text between words, and within words that are longer than a line.
func wrap(text string, width int) []string {
	var words []string
	for _, w := range strings.Fields(text) {
		for r := []rune(w); ; r = r[width:] {
			if len(r) <= width {
				words = append(words, string(r))
				break
			}
			words = append(words, string(r[:width]))
		}
	}
	return wrapWords(words, width)
}

// wrapWords joins words to lines of at most width characters, and longer ones of one word.
func wrapWords(words []string, width int) []string {
	lines, used := []string{""}, 0
	for _, w := range words {
		n := utf8.RuneCountInString(w)
		last := len(lines) - 1
		switch {
		case lines[last] == "":
			lines[last], used = w, n
		case used+1+n <= width:
			lines[last], used = lines[last]+" "+w, used+1+n
		default:
			lines, used = append(lines, w), n
		}
	}
	return lines
}

// shellWords splits a command line at the spaces that are not quoted; the words keep their quotes.
func shellWords(text string) (words []string) {
	var word strings.Builder
	quote, escapes := byte(0), true
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == 0 && c == ' ':
			if word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			continue
		case quote == 0 && (c == '\'' || c == '"'):
			quote, escapes = c, c == '"' || i > 0 && text[i-1] == '$'
		case c == '\\' && (quote == 0 || escapes) && i+1 < len(text):
			word.WriteByte(c)
			i++
			c = text[i]
		case c == quote:
			quote = 0
		}
		word.WriteByte(c)
	}
	if word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}
