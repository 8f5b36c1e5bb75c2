package screen

// escapeSequence executes an escape sequence: ESC, intermediate byte, final byte.
func (s *Screen) escapeSequence(middle, final byte) {
	switch middle {
	case 0:
	case '(', ')':
		s.cur.charset[middle-'('] = final == '0'
		return
	default:
		return
	}
	switch final {
	case '7':
		s.save()
	case '8':
		s.restore()
	case 'D':
		s.index()
	case 'E':
		s.cur.x, s.cur.wrap = 0, false
		s.index()
	case 'H':
		s.tabs[s.cur.x] = true
	case 'M':
		s.reverseIndex()
	case 'c':
		s.reset()
	}
}

func (s *Screen) save() { s.at.saved = s.cur; s.at.saved.origin = s.modes.origin }

func (s *Screen) restore() {
	s.moved = true
	s.cur = s.at.saved
	s.modes.origin = s.cur.origin
	s.cur.x, s.cur.y = min(s.cur.x, s.w-1), min(s.cur.y, s.h-1)
}

// reset is RIS.
func (s *Screen) reset() {
	s.show(false)
	s.turnPage()
	s.alt = nil
	s.main.saved = cursor{}
	s.cur, s.top, s.bottom, s.modes, s.kitty = cursor{}, 0, s.h, defaultModes(), nil
	s.defaultTabs()
}

// controlSequence executes a control sequence.
func (s *Screen) controlSequence(c *csi) {
	switch {
	case c.mark == '?' && c.middle == 0 && (c.final == 'h' || c.final == 'l'):
		for i := range c.params {
			s.privateMode(c.at(i, 0), c.final == 'h')
		}
		return
	case c.final == 'u' && c.middle == 0 && c.mark != 0:
		s.keyboard(c)
		return
	case c.mark == 0 && c.middle == '!' && c.final == 'p': // DECSTR
		s.modes.insert, s.modes.origin, s.modes.wrap, s.modes.hidden = false, false, true, false
		s.cur.style, s.cur.charset, s.cur.shift, s.top, s.bottom = style{}, [2]bool{}, 0, 0, s.h
		return
	case c.mark != 0 || c.middle != 0:
		return
	}
	if s.move(c) || s.edit(c) {
		return
	}
	switch c.final {
	case 'm':
		s.cur.style.sgr(c)
	case 'h', 'l':
		for i := range c.params {
			if c.at(i, 0) == 4 {
				s.modes.insert = c.final == 'h'
			}
		}
	case 'r':
		top, bottom := max(c.at(0, 1), 1)-1, c.at(1, s.h)
		if bottom == 0 || bottom > s.h {
			bottom = s.h
		}
		if top < bottom-1 {
			s.top, s.bottom = top, bottom
			s.place(0, 0)
		}
	case 's':
		s.save()
	case 'u':
		s.restore()
	case 'g':
		switch c.at(0, 0) {
		case 0:
			s.tabs[s.cur.x] = false
		case 3:
			clear(s.tabs)
		}
	case 'b':
		for range min(c.count(0), s.w) {
			if s.lastChar != 0 {
				s.print(s.lastChar)
			}
		}
	}
}

// place moves the cursor to a line of the screen or, in origin mode, of the region.
func (s *Screen) place(x, y int) {
	s.moved = true
	low, high := 0, s.h-1
	if s.modes.origin {
		low, high = s.top, s.bottom-1
		y += s.top
	}
	s.cur.x, s.cur.y, s.cur.wrap = min(max(x, 0), s.w-1), min(max(y, low), high), false
}

// vertical moves the cursor by n lines; it stops at the region's edge.
func (s *Screen) vertical(n int) {
	low, high := 0, s.h-1
	if s.cur.y >= s.top {
		low = s.top
	}
	if s.cur.y < s.bottom {
		high = s.bottom - 1
	}
	s.moved = true
	s.cur.y, s.cur.wrap = min(max(s.cur.y+n, low), high), false
}

// move executes the sequences that move the cursor.
func (s *Screen) move(c *csi) bool {
	switch c.final {
	case 'A':
		s.vertical(-c.count(0))
	case 'B', 'e':
		s.vertical(c.count(0))
	case 'C', 'a':
		s.cur.x, s.cur.wrap = min(s.cur.x+c.count(0), s.w-1), false
	case 'D':
		s.cur.x, s.cur.wrap = max(s.cur.x-c.count(0), 0), false
	case 'E':
		s.vertical(c.count(0))
		s.cur.x = 0
	case 'F':
		s.vertical(-c.count(0))
		s.cur.x = 0
	case 'G', '`':
		s.cur.x, s.cur.wrap = min(c.count(0), s.w)-1, false
	case 'H', 'f':
		s.place(c.count(1)-1, c.count(0)-1)
	case 'd':
		s.place(s.cur.x, c.count(0)-1)
	case 'I':
		s.tab(min(c.count(0), s.w))
	case 'Z':
		s.tab(-min(c.count(0), s.w))
	default:
		return false
	}
	return true
}

// edit executes the sequences that insert, delete and erase.
func (s *Screen) edit(c *csi) bool {
	x, y, n := s.cur.x, s.cur.y, c.count(0)
	r := s.at.rows[y]
	inside := y >= s.top && y < s.bottom
	switch c.final {
	case '@':
		r.insert(x, n)
	case 'P':
		r.remove(x, n)
	case 'X':
		r.clear(x, min(x+n, s.w))
	case 'K':
		switch c.at(0, 0) {
		case 0:
			r.clear(x, s.w)
		case 1:
			r.clear(0, x+1)
		case 2:
			r.clear(0, s.w)
		}
	case 'J':
		s.erase(c.at(0, 0))
	case 'L', 'M':
		for range min(n, s.bottom-y) {
			switch {
			case !inside:
			case c.final == 'L':
				s.at.down(y, s.bottom)
			default:
				s.at.up(y, s.bottom)
			}
		}
		s.moved = true
		s.cur.x, s.cur.wrap = 0, false
	case 'S':
		s.scrollUp(n)
	case 'T':
		for range min(n, s.bottom-s.top) {
			s.at.down(s.top, s.bottom)
		}
	default:
		return false
	}
	if c.final != 'S' && c.final != 'T' {
		s.cur.wrap = false
	}
	return true
}

// erase executes ED. Erasing the whole screen starts a new page: its lines go to the scroll-back.
func (s *Screen) erase(how int) {
	x, y := s.cur.x, s.cur.y
	switch {
	case how == 2 || how == 0 && x == 0 && y == 0:
		s.turnPage()
	case how == 0:
		s.at.rows[y].clear(x, s.w)
		for i := y + 1; i < s.h; i++ {
			s.at.rows[i].clear(0, s.w)
		}
	case how == 1:
		for i := range y {
			s.at.rows[i].clear(0, s.w)
		}
		s.at.rows[y].clear(0, x+1)
	case how == 3:
		s.back = backlog{}
	}
}
