package main

import (
	"bufio"
	"errors"
	"io"
	"unicode/utf8"
)

// calm passes on what a program printed, for a terminal it did not print to:
// text, line ends and colours, nothing that moves the cursor, changes the title
// or the clipboard, or has the terminal answer (ECMA-48, xterm's ctlseqs). What
// it is given may be cut anywhere.
type calm struct {
	w     io.Writer
	state calmState
	seq   []byte // a colour under way
	char  []byte // a character under way
}

type calmState int

const (
	calmText      calmState = iota
	calmEscape              // after ESC
	calmNF                  // after ESC and an intermediate byte
	calmCSI                 // after ESC [
	calmString              // in an OSC, DCS, SOS, PM or APC
	calmStringEnd           // in one, after ESC
)

// maxSGR bounds a colour, in bytes; what is longer is dropped.
const maxSGR = 64

// Write is part of io.Writer.
func (c *calm) Write(p []byte) (int, error) {
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

func (c *calm) step(out []byte, b byte) []byte {
	if b == 0x18 || b == 0x1a { // CAN and SUB end every sequence
		c.state, c.char = calmText, c.char[:0]
		return out
	}
	switch c.state {
	case calmEscape:
		switch {
		case b == '[':
			c.state, c.seq = calmCSI, append(c.seq[:0], "\x1b["...)
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state = calmString
		case b == 0x1b:
		case b >= 0x20 && b < 0x30:
			c.state = calmNF
		default:
			c.state = calmText
		}
	case calmNF:
		if b < 0x20 || b >= 0x30 {
			c.state = calmText
		}
	case calmCSI:
		return c.csi(out, b)
	case calmString:
		switch b {
		case 0x07:
			c.state = calmText
		case 0x1b:
			c.state = calmStringEnd
		}
	case calmStringEnd:
		switch b {
		case '\\':
			c.state = calmText
		case 0x1b:
		default:
			c.state = calmString
		}
	default:
		return c.text(out, b)
	}
	return out
}

func (c *calm) csi(out []byte, b byte) []byte {
	switch {
	case b == 0x1b:
		c.state = calmEscape
	case b >= 0x40 && b <= 0x7e:
		c.state = calmText
		if b == 'm' && len(c.seq) < maxSGR {
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
func (c *calm) text(out []byte, b byte) []byte {
	if len(c.char) > 0 && !utf8.RuneStart(b) {
		c.char = append(c.char, b)
		if !utf8.FullRune(c.char) {
			return out
		}
		r, n := utf8.DecodeRune(c.char)
		if n == len(c.char) && (r < 0x80 || r > 0x9f) { // not of C1
			out = append(out, c.char...)
		} else {
			out = append(out, '?')
		}
		c.char = c.char[:0]
		return out
	}
	if len(c.char) > 0 {
		out, c.char = append(out, '?'), c.char[:0]
	}
	switch {
	case b == 0x1b:
		c.state = calmEscape
	case b == '\n' || b == '\r' || b == '\t' || b >= 0x20 && b < 0x7f:
		out = append(out, b)
	case b >= 0xc2 && b <= 0xf4:
		c.char = append(c.char, b)
	case b >= 0x80:
		out = append(out, '?')
	}
	return out
}

// plainly copies a patch to a terminal: whoever reads it must see what is in
// it, so that nothing in it is for the terminal.
func plainly(w io.Writer, r io.Reader) error {
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
