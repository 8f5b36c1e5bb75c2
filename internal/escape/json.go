package escape

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns a JSON text with the characters of its strings that are not printable as \uNNNN: C1 controls and DEL, which a
// terminal acts on, and what changes the direction of text or is invisible. The values are the same, and what is printable
// stays. Outside of strings, JSON has no such character.
func JSON(text []byte) []byte {
	shown := func(r rune) bool { return r == '\n' || r == '\t' || r == '\r' || unicode.IsPrint(r) }
	if utf8.Valid(text) && bytes.IndexFunc(text, func(r rune) bool { return !shown(r) }) < 0 {
		return text
	}
	var b bytes.Buffer
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch hi, lo := utf16.EncodeRune(r); {
		case shown(r) && (r != utf8.RuneError || n > 1):
			b.Write(text[i : i+n])
		case hi != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default: // a byte that is not UTF-8 is U+FFFD for readers of JSON
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.Bytes()
}

// JSONLines returns a writer that writes to w what JSON returns for each line.
func JSONLines(w io.Writer) io.Writer { return &jsonLines{w: w} }

type jsonLines struct {
	w    io.Writer
	part []byte // a character that is not complete
}

// Write is part of io.Writer. A character may be split between two writes.
func (j *jsonLines) Write(p []byte) (int, error) {
	text := append(j.part, p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	if _, err := j.w.Write(JSON(text[:whole])); err != nil {
		return 0, err
	}
	j.part = bytes.Clone(text[whole:])
	return len(p), nil
}
