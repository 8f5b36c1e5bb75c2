package screen

import (
	"hash/maphash"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// The limits of a terminal's size, in cells.
const (
	minRows, maxRows = 2, 256
	minCols, maxCols = 4, 512
	// maxMarks bounds the combining marks of one character, in bytes.
	maxMarks = 24
)

// Screen is a terminal. New makes one; the zero value is not usable.
type Screen struct {
	parser
	w, h        int
	main, alt   *grid // alt is nil until the alternate screen is used
	at          *grid // the screen that is visible: main or alt
	cur         cursor
	top, bottom int // the scrolling region, bottom exclusive
	tabs        []bool
	modes       modes
	kitty       []int // the stack of keyboard flags
	lastChar    rune  // for REP

	back backlog
	transcript
}

// New makes a terminal. A size outside of the limits is corrected.
func New(rows, cols int) *Screen {
	s := &Screen{w: min(max(cols, minCols), maxCols), h: min(max(rows, minRows), maxRows)}
	s.seed = maphash.MakeSeed()
	s.main = newGrid(s.w, s.h)
	s.at, s.bottom, s.modes = s.main, s.h, defaultModes()
	s.defaultTabs()
	return s
}

// Write processes output of the program. It never returns an error.
func (s *Screen) Write(p []byte) (int, error) {
	for _, b := range p {
		s.feed(b)
	}
	return len(p), nil
}

// Resize changes the size of the terminal. It cuts lines and does not wrap them again.
func (s *Screen) Resize(rows, cols int) {
	w, h := min(max(cols, minCols), maxCols), min(max(rows, minRows), maxRows)
	if w == s.w && h == s.h {
		return
	}
	y := &s.cur.y
	if s.at != s.main {
		y = &s.main.saved.y
	}
	for ; *y >= h; *y-- { // the rows above the cursor scroll off the top
		s.leave()
		s.main.up(0, s.h)
	}
	for _, g := range []*grid{s.main, s.alt} {
		if g == nil {
			continue
		}
		if w != s.w {
			for i := range g.rows {
				g.rows[i].resize(w)
			}
		}
		for len(g.rows) < h {
			g.rows = append(g.rows, newRow(w))
		}
		g.rows = g.rows[:h:h]
		g.saved.x, g.saved.y = min(g.saved.x, w-1), min(g.saved.y, h-1)
	}
	s.w, s.h, s.top, s.bottom = w, h, 0, h
	s.cur.x, s.cur.y, s.cur.wrap = min(s.cur.x, w-1), min(s.cur.y, h-1), false
	s.defaultTabs()
}

// Size is the size in cells.
func (s *Screen) Size() (rows, cols int) { return s.h, s.w }

func (s *Screen) defaultTabs() {
	s.tabs = make([]bool, s.w)
	for i := 8; i < s.w; i += 8 {
		s.tabs[i] = true
	}
}

// print puts one character at the cursor.
func (s *Screen) print(r rune) {
	if r >= 0x80 {
		switch w := displaywidth.Rune(r); {
		case unicode.In(r, unicode.Mn, unicode.Me) || r == 0x200d: // marks, joiners
			s.mark(r)
			return
		case !unicode.IsPrint(r) && r != utf8.RuneError && r != 0xa0 && !unicode.Is(unicode.Zs, r) && !unicode.Is(unicode.Co, r):
			return // controls, and characters that change the direction of text
		case w == 2:
			s.lastChar = r
			s.put(string(r), true)
			return
		}
		s.lastChar = r
		s.put(string(r), false)
		return
	}
	s.lastChar = r
	if s.cur.charset[s.cur.shift] {
		if d, ok := drawing(byte(r)); ok {
			s.put(d, false)
			return
		}
	}
	s.put(ascii[r:r+1], false)
}

// ascii holds the strings of the ASCII characters, so that a cell needs no allocation.
const ascii = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f" +
	" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~\x7f"

// drawing returns the DEC line drawing character for a letter.
func drawing(b byte) (string, bool) {
	const first, set = 0x60, "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"
	if b < first || b > 0x7e {
		return "", false
	}
	n := int(b - first)
	for _, r := range set {
		if n == 0 {
			return string(r), true
		}
		n--
	}
	return "", false
}

func (s *Screen) put(text string, wide bool) {
	n := 1
	if wide {
		n = 2
	}
	if s.cur.wrap || s.cur.x+n > s.w {
		if !s.modes.wrap {
			s.cur.x = s.w - n
		} else {
			r := s.at.rows[s.cur.y]
			r.wrapped = true
			s.index()
			s.cur.x = 0
		}
		s.cur.wrap = false
	}
	r := s.at.rows[s.cur.y]
	if s.modes.insert {
		r.insert(s.cur.x, n)
	}
	x := s.cur.x
	r.split(x)
	r.split(x + n)
	r.cells[x] = cell{text: text, style: s.cur.style, wide: wide}
	if wide {
		r.cells[x+1] = cell{style: s.cur.style, right: true}
	}
	r.used, r.touched = true, true
	if x+n == s.w {
		r.wrapped = false
		s.cur.x, s.cur.wrap = s.w-1, s.modes.wrap
	} else {
		s.cur.x = x + n
	}
}

// mark adds a combining character to the character before the cursor.
func (s *Screen) mark(r rune) {
	row := s.at.rows[s.cur.y]
	x := s.cur.x
	if !s.cur.wrap {
		x--
	}
	if x > 0 && row.cells[x].right {
		x--
	}
	if x < 0 || row.cells[x].text == "" || len(row.cells[x].text) >= maxMarks {
		return
	}
	row.cells[x].text += string(r)
	row.touched = true
}

// index moves the cursor down by a line. At the end of the region it scrolls.
func (s *Screen) index() {
	switch {
	case s.cur.y == s.bottom-1:
		s.scrollUp(1)
	case s.cur.y < s.h-1:
		s.cur.y++
	}
}

func (s *Screen) reverseIndex() {
	s.moved = true
	switch {
	case s.cur.y == s.top:
		s.at.down(s.top, s.bottom)
	case s.cur.y > 0:
		s.cur.y--
	}
}

func (s *Screen) scrollUp(n int) {
	for range min(n, s.bottom-s.top) {
		if s.at == s.main && s.top == 0 {
			s.leave()
		}
		s.at.up(s.top, s.bottom)
	}
}

// control executes a control character.
func (s *Screen) control(b byte) {
	switch b {
	case '\b':
		s.cur.x, s.cur.wrap = max(0, s.cur.x-1), false
	case '\t':
		s.tab(1)
	case '\n', '\v', '\f':
		s.cur.wrap = false
		s.index()
	case '\r':
		s.cur.x, s.cur.wrap = 0, false
	case 0x0e, 0x0f: // SO, SI
		s.cur.shift = int(0x0f - b)
	}
}

// tab moves the cursor by n tab stops, back if n is negative.
func (s *Screen) tab(n int) {
	step := 1
	if n < 0 {
		step, n = -1, -n
	}
	for x := s.cur.x + step; ; x += step {
		if x <= 0 || x >= s.w-1 {
			s.cur.x = min(max(x, 0), s.w-1)
			break
		}
		if s.tabs[x] {
			if n--; n == 0 {
				s.cur.x = x
				break
			}
		}
	}
	s.cur.wrap = false
}
