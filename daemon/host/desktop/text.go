package desktop

import (
	"strings"
	"unicode"

	"polis/internal/escape"
)

// What of a note is shown: as much as fits on a screen. Titles and lines in characters.
const (
	maxTitle  = 80
	maxLine   = 300
	maxLines  = 4
	maxDetail = 300
)

// markup is what the body of a notification may have, a subset of HTML.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// bounded is a note as it is shown, but for markup.
func bounded(n Note) Note {
	out := Note{Title: clean(n.Title, maxTitle)}
	for _, line := range n.Lines[:min(len(n.Lines), maxLines)] {
		out.Lines = append(out.Lines, clean(line, maxLine))
	}
	return out
}

// clean is one line without a character that a program would act on or a reader would not see, of at most n characters.
func clean(s string, n int) string {
	// A character has up to four bytes, and an escape is longer than it: what is behind so many bytes is not shown.
	if most := (n + 1) * 4; len(s) > most {
		s = s[:most]
	}
	r := []rune(escape.Text(s, unicode.IsPrint))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// body are the lines of a note as the body of a notification.
func (n Note) body() string { return markup.Replace(strings.Join(n.Lines, "\n")) }
