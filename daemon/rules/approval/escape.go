package approval

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"polis/internal/escape"
)

// Escape makes text of an agent safe to show to a person in one line: control characters, broken
// UTF-8, and characters that are invisible or reorder others are written as \xNN, \uNNNN or
// \UNNNNNNNN. A backslash that could be taken for the beginning of one of these is doubled, so that
// no two texts are shown alike.
func Escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			escape.Byte(&b, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\\' && misread(s[i+1:]):
			b.WriteString(`\\`)
		case visible(r):
			b.WriteRune(r)
		default:
			escape.Rune(&b, r)
		}
		i += n
	}
	return b.String()
}

// misread reports whether a backslash before the text would read as an escaped character.
func misread(next string) bool {
	if next == "" {
		return false
	}
	r, n := utf8.DecodeRuneInString(next)
	return strings.ContainsRune(`\xuUnt`, r) || r == utf8.RuneError && n == 1 || !visible(r)
}

// visible reports whether a character shows as itself. unicode.IsPrint rejects controls,
// formatting characters and every space but U+0020; what else looks empty is listed.
func visible(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0: // fillers
		return false
	}
	return unicode.IsPrint(r) && !unicode.Is(unicode.Variation_Selector, r)
}

// Bounded is Escape of the first bytes of s; hidden is how many bytes are left out.
func Bounded(s string, limit int) (text string, hidden int) {
	if len(s) <= limit {
		return Escape(s), 0
	}
	n := limit
	for n > limit-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return Escape(s[:n]), len(s) - n
}
