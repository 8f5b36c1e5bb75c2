package escape

import (
	"fmt"
	"strings"
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
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case keep(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}
