package escape

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s with the characters for which keep is false written as \xNN, \uNNNN or
// \UNNNNNNNN, and bytes that are not UTF-8 as \xNN. A backslash of s stays as it is: the result is to be read, not to be
// decoded.
func Text(s string, keep func(rune) bool) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !keep(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			Byte(&b, s[i])
		case keep(r):
			b.WriteRune(r)
		default:
			Rune(&b, r)
		}
		i += n
	}
	return b.String()
}

// Lines is Text for a text that may have several lines: of what is not printable, line ends and tabs stay.
func Lines(s string) string {
	return Text(s, func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) })
}

// Spaces returns s with every space character (Unicode category Zs, such as the no-break space) as an ordinary space. It
// is for prose: two names or commands that differ in a space only would look the same.
func Spaces(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.Is(unicode.Zs, r) {
			b.WriteByte(' ')
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// Byte appends c as \xNN.
func Byte(b *strings.Builder, c byte) { fmt.Fprintf(b, `\x%02x`, c) }

// Rune appends r as \xNN, \uNNNN or \UNNNNNNNN, whichever is the shortest.
func Rune(b *strings.Builder, r rune) {
	switch {
	case r < utf8.RuneSelf:
		fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}
