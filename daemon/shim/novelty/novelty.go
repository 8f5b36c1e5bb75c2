package novelty

import (
	"hash/fnv"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxLine is how many bytes of words of a line are compared.
	maxLine = 256
	// remembered is how many lines at least are remembered; twice as many at most.
	remembered = 512
	// pause is for how long after something new nothing is compared: a program that prints a lot costs
	// nothing then.
	pause = time.Second
	// minWord is the length of the shortest word: units of time and single drawn cells are none.
	minWord = 2
	// maxString and maxParams are how many characters of a string and of a control sequence are passed over at
	// most: a program may never end them.
	maxString = 4096
	maxParams = 256
)

// Meter sees what a program prints. The zero value has seen nothing. It is not safe for concurrent use.
type Meter struct {
	// Printed is how many bytes were printed, New when something new was last among them.
	Printed int64
	New     time.Time

	state  state
	passed int               // characters in this state, if it is a control sequence
	split  []byte            // the begin of a character whose end comes with the next write
	word   [4 * minWord]byte // the begin of a word that may be too short
	runes  int               // of that word
	bytes  int
	line   []byte
	// recent and before have the lines that were seen: when recent is full, it becomes before.
	recent, before map[uint64]bool
}

// state is where the output is in a control sequence (ECMA-48).
type state int

const (
	text   state = iota
	escape       // after ESC
	csi          // in a control sequence
	osc          // in a string, until BEL, ESC or the end of the line
)

// Write takes what the program printed at a time. It reports whether something in it is new.
func (m *Meter) Write(p []byte, now time.Time) bool {
	m.Printed += int64(len(p))
	if !m.New.IsZero() && now.Sub(m.New) < pause && now.After(m.New) {
		m.state, m.line, m.runes, m.split = text, m.line[:0], 0, m.split[:0]
		return false
	}
	if len(m.split) > 0 {
		p = slices.Concat(m.split, p)
		m.split = m.split[:0]
	}
	fresh := false
	for len(p) > 0 {
		r, n := rune(p[0]), 1
		if r >= utf8.RuneSelf {
			if !utf8.FullRune(p) { // at most 3 bytes, which can become one
				m.split = append(m.split, p...)
				break
			}
			r, n = utf8.DecodeRune(p)
		}
		p = p[n:]
		fresh = m.take(r) || fresh
	}
	if fresh {
		m.New = now
	}
	return fresh
}

// take takes a character, and reports whether it ended a line that is new.
func (m *Meter) take(r rune) bool {
	switch {
	case m.state != text:
		return m.control(r)
	case r == 0x1b:
		m.state = escape
	case r == '\n' || r == '\r':
		return m.end()
	case unicode.IsLetter(r):
		m.letter(r)
		return len(m.line) >= maxLine && m.end()
	default:
		m.runes, m.bytes = 0, 0 // the end of a word
	}
	return false
}

// control takes a character of a control sequence, and reports whether it ended a line that is new.
func (m *Meter) control(r rune) bool {
	m.passed++
	switch {
	case r == '\n': // the sequence was never ended
		m.state = text
		return m.end()
	case r == 0x1b: // it begins another one, or the terminator ESC \
		m.state = escape
	case m.state == escape:
		m.state, m.passed = text, 0
		switch r {
		case '[':
			m.state = csi
		case ']', 'P', '_', '^', 'X':
			m.state = osc
		}
	case m.state == csi && r >= 0x40 && r <= 0x7e:
		m.state = text
		return r != 'm' && m.end() // a colour divides no word
	case m.state == osc && r == '\a', m.state == csi && m.passed >= maxParams, m.passed >= maxString:
		m.state = text
	}
	return false
}

// letter adds a letter to the line, unless its word is too short.
func (m *Meter) letter(r rune) {
	m.runes++
	switch {
	case m.runes < minWord:
		m.bytes = utf8.EncodeRune(m.word[:], r)
	case m.runes == minWord:
		m.line = append(m.line, ' ')
		m.line = append(m.line, m.word[:m.bytes]...)
		fallthrough
	default:
		m.line = utf8.AppendRune(m.line, r)
	}
}

// end ends a line, and reports whether it is new.
func (m *Meter) end() bool {
	m.runes, m.bytes = 0, 0
	if len(m.line) == 0 {
		return false
	}
	h := fnv.New64a()
	_, _ = h.Write(m.line) //nolint:errcheck // it never fails
	m.line = m.line[:0]
	return m.First(h.Sum64())
}

// First notes something by its hash, and reports whether it was not seen before.
func (m *Meter) First(hash uint64) bool {
	if m.recent[hash] {
		return false
	}
	seen := m.before[hash]
	if m.recent == nil || len(m.recent) >= remembered {
		m.before, m.recent = m.recent, map[uint64]bool{}
	}
	m.recent[hash] = true
	return !seen
}
