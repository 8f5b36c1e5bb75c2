package steps

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"polis/daemon/api"
)

// Render is a step as it is shown: what an agent writes and prints as it is, anything
// else as "* edit     src/cart.js".
func Render(st api.Step) string {
	if st.Kind == api.StepSay || st.Kind == api.StepText {
		return st.Text + "\n"
	}
	return fmt.Sprintf("* %-8s %s\n", st.Kind, st.Text)
}

// shown is a call in one line.
func shown(kind api.StepKind, text string) string {
	if kind == api.StepCommand || kind == api.StepTool {
		return text
	}
	return string(kind) + " " + text
}

// size is a number of bytes for people.
func size(n int) string {
	if n < 10<<20 {
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// firstLine is the first line of a text that is not empty.
func firstLine(text string) string {
	for line := range strings.Lines(text[:min(len(text), maxSay)]) {
		if line = oneLine(line, maxText); line != "" {
			return line
		}
	}
	return ""
}

// oneLine is a text without line ends and control characters, of at most so many bytes.
func oneLine(text string, most int) string {
	text = clean(text[:min(len(text), 4*most)])
	return cut(strings.Join(strings.Fields(text), " "), most)
}

// lines is a text without control characters, but with its line ends.
func lines(text string, most int) string {
	return strings.TrimRight(cut(clean(text[:min(len(text), 2*most)]), most), " \n")
}

// cut shortens a text to so many bytes of whole characters.
func cut(text string, most int) string { return strings.ToValidUTF8(api.Shorten(text, most), "") }

// clean drops escape sequences (ECMA-48), control and formatting characters. Line feeds
// and tabs stay; what is no UTF-8 becomes '?'.
func clean(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == 0x1b:
			n = sequence(text)
		case r == utf8.RuneError && n == 1:
			b.WriteByte('?')
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029:
			// A control, or one that changes the direction or the joining of text.
		default:
			b.WriteRune(r)
		}
		text = text[n:]
	}
	return b.String()
}

// sequence is the length of the escape sequence that text begins with.
func sequence(text string) int {
	if len(text) < 2 {
		return len(text)
	}
	switch text[1] {
	case '[':
		for i := 2; i < len(text); i++ {
			if c := text[i]; c >= 0x40 && c <= 0x7e {
				return i + 1
			} else if c < 0x20 || c > 0x7e {
				return i // broken off
			}
		}
		return len(text)
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < len(text); i++ {
			switch {
			case text[i] == 0x07:
				return i + 1
			case text[i] == 0x1b && i+1 < len(text) && text[i+1] == '\\':
				return i + 2
			case text[i] == '\n':
				return i // broken off: it must not hide what follows
			}
		}
		return len(text)
	}
	if text[1] < 0x20 || text[1] > 0x7e {
		return 1
	}
	return 2
}
