package main

import (
	"bufio"
	"errors"
	"io"
	"unicode"
	"unicode/utf8"

	"polis/internal/escape"
)

// termFilter copies the output of a program to a terminal that the program did not
// write to. It passes text, line ends and colours, and drops what moves the cursor,
// changes the title or the clipboard, or makes the terminal answer (ECMA-48, xterm's
// ctlseqs). For a terminal, characters
// that change the direction of text, end a line in another way or hide text are written as \uNNNN.
// A sequence may be split between two writes.
//
// The parser of charmbracelet/x/ansi is not used: it follows C1 controls of one byte, which a
// terminal in UTF-8 shows, so that one such byte would hide all text up to the next; and
// it takes an escape for the rest of a broken character.
type termFilter struct {
	w     io.Writer
	plain bool // not for a terminal: colours are dropped, and no character is escaped
	state filterState
	seq   []byte // a colour under way
	char  []byte // a character under way
}

type filterState int

const (
	inText            filterState = iota
	afterEscape                   // after ESC
	afterIntermediate             // after ESC and an intermediate byte
	inCSI                         // after ESC [
	inString                      // in an OSC, DCS, SOS, PM or APC
	inStringEscape                // in one, after ESC
)

// tags are invisible copies of the characters of ASCII.
var tags = &unicode.RangeTable{R32: []unicode.Range32{{Lo: 0xe0000, Hi: 0xe007f, Stride: 1}}}

// maxSGR bounds a colour, in bytes; what is longer is dropped.
const maxSGR = 64

// Write is part of io.Writer.
func (c *termFilter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p)+utf8.UTFMax)
	for _, b := range p {
		out = c.step(out, b)
	}
	if len(out) > 0 {
		if _, err := c.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *termFilter) step(out []byte, b byte) []byte {
	if b == 0x18 || b == 0x1a { // CAN and SUB end every sequence
		c.state, c.char = inText, c.char[:0]
		return out
	}
	switch c.state {
	case afterEscape:
		switch {
		case b == '[':
			c.state, c.seq = inCSI, append(c.seq[:0], "\x1b["...)
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state = inString
		case b == 0x1b:
		case b >= 0x20 && b < 0x30:
			c.state = afterIntermediate
		default:
			c.state = inText
		}
	case afterIntermediate:
		if b < 0x20 || b >= 0x30 {
			c.state = inText
		}
	case inCSI:
		return c.csi(out, b)
	case inString:
		switch b {
		case 0x07:
			c.state = inText
		case 0x1b:
			c.state = inStringEscape
		}
	case inStringEscape:
		switch b {
		case '\\':
			c.state = inText
		case 0x1b:
		default:
			c.state = inString
		}
	default:
		return c.text(out, b)
	}
	return out
}

func (c *termFilter) csi(out []byte, b byte) []byte {
	switch {
	case b == 0x1b:
		c.state = afterEscape
	case b >= 0x40 && b <= 0x7e:
		c.state = inText
		if b == 'm' && !c.plain && len(c.seq) < maxSGR {
			out = append(append(out, c.seq...), b)
		}
	case len(c.seq) >= maxSGR:
	case b >= '0' && b <= '9' || b == ';' || b == ':':
		c.seq = append(c.seq, b)
	default:
		c.seq = append(c.seq, make([]byte, maxSGR)...) // no colour
	}
	return out
}

// text handles a byte outside of sequences: characters are put together first,
// for some of them are controls, too.
func (c *termFilter) text(out []byte, b byte) []byte {
	if len(c.char) > 0 && !utf8.RuneStart(b) {
		c.char = append(c.char, b)
		if !utf8.FullRune(c.char) {
			return out
		}
		r, n := utf8.DecodeRune(c.char)
		switch {
		case n < len(c.char) || r >= 0x80 && r <= 0x9f: // of C1
			out = append(out, '?')
		case !c.plain && unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp, tags):
			out = append(out, escape.Text(string(r), func(rune) bool { return false })...)
		default:
			out = append(out, c.char...)
		}
		c.char = c.char[:0]
		return out
	}
	if len(c.char) > 0 {
		out, c.char = append(out, '?'), c.char[:0]
	}
	switch {
	case b == 0x1b:
		c.state = afterEscape
	case b == '\n' || b == '\r' || b == '\t' || b >= 0x20 && b < 0x7f:
		out = append(out, b)
	case b >= 0xc2 && b <= 0xf4:
		c.char = append(c.char, b)
	case b >= 0x80:
		out = append(out, '?')
	}
	return out
}

// copyEscaped copies a patch to a terminal: its reader must see every byte of it, and the
// terminal must interpret none.
func copyEscaped(w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if _, werr := io.WriteString(w, cleanText(string(line))); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
