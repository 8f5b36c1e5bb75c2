package main

import (
	"fmt"
	"io"
	"sync"
)

// termModes passes a program's output to the user's terminal, and notes which
// modes the terminal is in that a shell does not expect, so that they can be ended
// when the program continues without it, or was killed (xterm's ctlseqs, the kitty
// keyboard protocol).
type termModes struct {
	w io.Writer

	mu sync.Mutex
	modeState
}

type modeState struct {
	state  filterState
	seq    []byte
	on     [len(privateModes)]bool
	alt    bool
	kitty  int // so many sets of keyboard flags were pushed
	others bool
	dirty  bool // colours, margins, character sets, insert mode, cursor's shape
}

// privateModes are those that are off in a shell's terminal, or on if negative:
// cursor keys, reverse video, origin, wrap, mouse, cursor, focus, paste, synchronized
// output, colour and size reports.
var privateModes = [...]int{1, 5, 6, -7, 9, -25, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026, 2031, 2048}

// maxKeyboard bounds the pushes that are undone; terminals keep no more.
const maxKeyboard = 16

// Write is part of io.Writer.
func (m *termModes) Write(p []byte) (int, error) {
	m.mu.Lock()
	for _, b := range p {
		m.step(b)
	}
	m.mu.Unlock()
	return m.w.Write(p)
}

func (m *termModes) step(b byte) {
	switch {
	case b == 0x18 || b == 0x1a:
		m.state = inText
	case m.state == inString && b == 0x07, m.state == inStringEscape && b == '\\':
		m.state = inText
	case m.state == inString || m.state == inStringEscape:
		m.state = inString
		if b == 0x1b {
			m.state = inStringEscape
		}
	case b == 0x1b:
		m.state = afterEscape
	case m.state == afterEscape && b == '[':
		m.state, m.seq = inCSI, m.seq[:0]
	case m.state == afterEscape && (b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_'):
		m.state = inString
	case m.state == afterEscape:
		m.state = inText
		if b == '(' || b == ')' || b == '=' {
			m.dirty = true
		}
		if b == 'c' {
			m.modeState = modeState{}
		}
	case m.state == inCSI && b >= 0x40 && b <= 0x7e:
		m.state = inText
		m.sequence(b)
	case m.state == inCSI && len(m.seq) < maxSGR:
		m.seq = append(m.seq, b)
	}
}

// sequence notes what a control sequence changes.
func (m *termModes) sequence(final byte) {
	mark := byte(0)
	if len(m.seq) > 0 {
		mark = m.seq[0]
	}
	switch {
	case mark == '?' && (final == 'h' || final == 'l'):
		n := 0
		for _, b := range append(m.seq[1:], ';') {
			if b >= '0' && b <= '9' && n < 1<<16 {
				n = n*10 + int(b-'0')
			} else {
				m.private(n, final == 'h')
				n = 0
			}
		}
	case mark == '>' && final == 'u':
		m.kitty = min(m.kitty+1, maxKeyboard)
	case mark == '<' && final == 'u':
		m.kitty = max(m.kitty-1, 0)
	case mark == '=' && final == 'u':
		m.kitty = max(m.kitty, 1)
	case mark == '>' && final == 'm':
		m.others = true
	case final == 'm' || final == 'r' || final == 'h' || final == 'q':
		m.dirty = true
	}
}

func (m *termModes) private(n int, on bool) {
	if n == 47 || n == 1047 || n == 1049 {
		m.alt = on
	}
	for i, mode := range privateModes {
		if mode == n || mode == -n {
			m.on[i] = on == (mode > 0)
		}
	}
}

// reset ends what is on; away also leaves the line that the program was on, as
// it continues without this terminal. A nil one is of no terminal.
func (m *termModes) reset(away bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []byte
	if m.state != inText { // a sequence that was cut short
		out = append(out, 0x18)
	}
	for i, mode := range privateModes {
		switch {
		case m.on[i] && mode > 0:
			out = fmt.Appendf(out, "\x1b[?%dl", mode)
		case m.on[i]:
			out = fmt.Appendf(out, "\x1b[?%dh", -mode)
		}
	}
	if m.kitty > 0 {
		out = fmt.Appendf(out, "\x1b[<%du", m.kitty)
	}
	if m.others {
		out = append(out, "\x1b[>4m"...)
	}
	if m.dirty {
		// To set the margins moves the cursor.
		out = append(out, "\x1b7\x1b[r\x1b8\x1b[4l\x1b(B\x1b)B\x0f\x1b>\x1b[0 q"...)
	}
	if m.alt {
		out = append(out, "\x1b[?1049l"...)
	} else if away {
		out = append(out, "\r\n\x1b[J"...)
	}
	if len(out) > 0 || away {
		out = append(out, "\x1b[0m"...)
	}
	m.modeState = modeState{}
	_, _ = m.w.Write(out) // it fails only if the terminal is gone
}
