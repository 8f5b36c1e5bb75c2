package screen

import (
	"fmt"
	"strconv"
	"strings"
)

// maxStyled bounds a line with its colours, in bytes. A longer line loses its colours.
const maxStyled = 4096

// end returns the number of cells up to the last visible character. A wrapped line keeps its
// trailing spaces.
func (r *row) end() int {
	n := len(r.cells)
	if r.wrapped {
		if n--; r.cells[n].text != "" || r.cells[n].right { // else a wide character did not fit at the end of the line
			n++
		}
		return n
	}
	for n > 0 && (r.cells[n-1].text == "" || r.cells[n-1].text == " ") && !r.cells[n-1].right {
		n--
	}
	return n
}

// plain appends the text without colours.
func (r *row) plain(b []byte) []byte {
	for _, c := range r.cells[:r.end()] {
		switch {
		case c.text != "":
			b = append(b, c.text...)
		case !c.right:
			b = append(b, ' ')
		}
	}
	return b
}

// shows reports whether the style is visible on a blank cell.
func (st style) shows() bool { return st.bg != 0 || st.attr&(underline|reverse|strike) != 0 }

// styled appends the text with its colours, and resets them at the end.
func (r *row) styled(b []byte) []byte {
	begin := len(b)
	var last style
	for _, c := range r.cells[:r.end()] {
		if c.style != last && !c.right && (c.text != "" || last.shows()) {
			b = c.style.appendSGR(b)
			last = c.style
		}
		switch {
		case c.text != "":
			b = append(b, c.text...)
		case !c.right:
			b = append(b, ' ')
		}
		if len(b)-begin > maxStyled {
			return r.plain(b[:begin])
		}
	}
	if last != (style{}) {
		b = append(b, "\x1b[0m"...)
	}
	return b
}

// Lines returns the last n lines of the scroll-back and the screen, with their colours and without
// trailing blank lines. all is false if earlier lines were dropped.
func (s *Screen) Lines(n int) (lines []string, all bool) {
	rows := s.at.rows[:s.at.last()]
	lines = append(lines, s.back.lines...)
	open := s.back.open
	for i := range rows {
		text := string(rows[i].styled(nil))
		if open && len(lines) > 0 && len(lines[len(lines)-1]) < maxLine && s.at == s.main {
			lines[len(lines)-1] += text
		} else {
			lines = append(lines, text)
		}
		open = rows[i].wrapped
	}
	all = s.back.dropped == 0 || n <= len(lines)
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines, all
}

// Paint returns the output that draws the screen on another terminal of the same size and sets the
// same modes, for a client that attaches.
func (s *Screen) Paint() []byte {
	var b []byte
	rows := s.at.rows
	if s.at == s.main {
		rows = rows[:max(s.main.last(), s.cur.y+1)]
	} else {
		b = append(b, "\x1b[?1049h\x1b[H\x1b[2J"...)
	}
	for i := range rows {
		if i > 0 {
			b = append(b, "\r\n"...)
		}
		b = rows[i].styled(append(b, '\r'))
	}
	if up := len(rows) - 1 - s.cur.y; up > 0 {
		b = fmt.Appendf(b, "\x1b[%dA", up)
	}
	b = append(b, '\r')
	if s.cur.x > 0 {
		b = fmt.Appendf(b, "\x1b[%dC", s.cur.x)
	}
	if s.cur.style != (style{}) {
		b = s.cur.style.appendSGR(b)
	}
	if s.modes.hidden {
		b = append(b, "\x1b[?25l"...)
	}
	var on []string
	for i, m := range reports {
		if s.modes.reports[i] {
			on = append(on, strconv.Itoa(m))
		}
	}
	if len(on) > 0 {
		b = fmt.Appendf(b, "\x1b[?%sh", strings.Join(on, ";"))
	}
	if n := len(s.kitty); n > 0 {
		b = fmt.Appendf(b, "\x1b[>%du", s.kitty[n-1])
	}
	return b
}
