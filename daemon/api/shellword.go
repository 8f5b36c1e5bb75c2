package api

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ShellWord returns a text as one word of a command line for sh(1).
func ShellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// PastedWord is ShellWord for a command that a person copies from a terminal: what a terminal does not show, or obeys, such as line
// ends, escape sequences and bytes that are not UTF-8, is written in octal, as bash, zsh and ksh read it. So are characters that
// end or continue the quotes of another shell: there the word is another one, and never a command.
func PastedWord(s string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, odd) {
		if strings.HasPrefix(s, "=") { // the path of a command in zsh
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		return ShellWord(s)
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, r == '\'', odd(r):
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String() + "'"
}
