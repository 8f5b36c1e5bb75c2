package screen

import (
	"unicode/utf8"
)

const (
	// maxParams and maxParam bound a control sequence. The rest of a longer one is dropped.
	maxParams = 32
	maxParam  = 1<<16 - 1
)

type state int

const (
	ground    state = iota
	escape          // after ESC
	inEscape        // after ESC and intermediate bytes
	inCSI           // after ESC [
	inString        // in an OSC, DCS, SOS, PM or APC: its content is dropped
	endString       // in one, after ESC
)

// parser splits a byte stream into sequences as ECMA-48 defines them.
type parser struct {
	state  state
	osc    bool // BEL can end the string
	mark   byte // a private prefix of a control sequence: one of <=>?
	middle byte // the last intermediate byte
	params []param
	open   bool // a parameter was begun
	bad    bool // the sequence has no meaning
	char   []byte
}

// param is a parameter of a control sequence.
type param struct {
	value int  // -1: left out
	sub   bool // it follows a colon
}

// csi is a complete control sequence.
type csi struct {
	mark, middle, final byte
	params              []param
}

// at returns a parameter, or def if the parameter is omitted.
func (c *csi) at(i, def int) int {
	if i < len(c.params) && c.params[i].value >= 0 {
		return c.params[i].value
	}
	return def
}

// count returns the first parameter as a number of repetitions, at least 1.
func (c *csi) count(i int) int { return max(1, c.at(i, 1)) }

// feed takes one byte.
func (s *Screen) feed(b byte) {
	p := &s.parser
	switch {
	case b == 0x18 || b == 0x1a: // CAN, SUB
		p.state, p.char = ground, p.char[:0]
		return
	case b == 0x1b && p.state != inString:
		p.state, p.middle, p.char = escape, 0, p.char[:0]
		return
	case b < 0x20 && p.state != inString && p.state != endString:
		s.control(b)
		return
	}
	switch p.state {
	case escape, inEscape:
		s.escaped(b)
	case inCSI:
		p.sequence(s, b)
	case inString:
		switch {
		case b == 0x1b:
			p.state = endString
		case b == 0x07 && p.osc:
			p.state = ground
		}
	case endString:
		p.state = ground
		if b != '\\' { // ESC ends a string, regardless of the next byte
			p.state, p.middle = escape, 0
			s.escaped(b)
		}
	default:
		s.character(b)
	}
}

func (s *Screen) escaped(b byte) {
	p := &s.parser
	switch {
	case b >= 0x20 && b < 0x30:
		p.state, p.middle = inEscape, b
	case b >= 0x7f || b < 0x20:
		p.state = ground
	case p.state == escape && b == '[':
		p.state, p.params, p.mark, p.open, p.bad = inCSI, p.params[:0], 0, false, false
	case p.state == escape && (b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_'):
		p.state, p.osc = inString, b == ']'
	default:
		p.state = ground
		s.escapeSequence(p.middle, b)
	}
}

// sequence processes a byte of a control sequence.
func (p *parser) sequence(s *Screen, b byte) {
	switch {
	case b >= '0' && b <= '9':
		p.begin(false)
		if v := &p.params[len(p.params)-1].value; !p.bad {
			*v = min(max(*v, 0)*10+int(b-'0'), maxParam)
		}
	case b == ';' || b == ':':
		p.begin(false)
		p.open = false
		p.begin(b == ':')
	case b >= 0x3c && b <= 0x3f:
		p.bad = p.bad || len(p.params) > 0
		p.mark = b
	case b >= 0x20 && b < 0x30:
		p.middle = b
	case b >= 0x40 && b < 0x7f:
		p.state = ground
		if !p.bad {
			s.controlSequence(&csi{mark: p.mark, middle: p.middle, final: b, params: p.params})
		}
	case b >= 0x80:
		p.state = ground
	}
}

// begin starts a parameter unless one has been started.
func (p *parser) begin(sub bool) {
	if p.open {
		return
	}
	p.open = true
	if len(p.params) == maxParams {
		p.bad = true
		return
	}
	p.params = append(p.params, param{value: -1, sub: sub})
}

// character processes a byte of text in UTF-8.
func (s *Screen) character(b byte) {
	p := &s.parser
	switch {
	case len(p.char) > 0 && !utf8.RuneStart(b):
		p.char = append(p.char, b)
		if !utf8.FullRune(p.char) {
			return
		}
		r, n := utf8.DecodeRune(p.char)
		if n != len(p.char) {
			r = utf8.RuneError
		}
		p.char = p.char[:0]
		s.print(r)
		return
	case len(p.char) > 0:
		p.char = p.char[:0]
		s.print(utf8.RuneError)
	}
	switch {
	case b < 0x7f:
		s.print(rune(b))
	case b == 0x7f:
	case b >= 0xc2 && b <= 0xf4:
		p.char = append(p.char, b)
	default:
		s.print(utf8.RuneError)
	}
}
