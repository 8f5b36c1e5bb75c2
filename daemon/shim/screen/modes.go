package screen

// modes are the terminal modes that are kept: those that change what is visible, and those that a
// client must set when it attaches.
type modes struct {
	wrap, insert, origin, hidden bool
	reports                      [len(reports)]bool
}

func defaultModes() modes { return modes{wrap: true} }

// reports are the private modes in which a terminal sends reports, or sends keys in another form:
// cursor keys, mouse, focus, paste.
var reports = [...]int{1, 9, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2031, 2048}

// maxKitty bounds the stack of keyboard flags.
const maxKitty = 8

func (s *Screen) privateMode(n int, on bool) {
	switch n {
	case 6:
		s.modes.origin = on
		s.place(0, 0)
	case 7:
		s.modes.wrap = on
	case 25:
		s.modes.hidden = !on
	case 47, 1047:
		s.show(on)
	case 1048:
		if on {
			s.save()
		} else {
			s.restore()
		}
	case 1049:
		switch {
		case on && s.at == s.main:
			s.save()
			s.show(true)
		case !on && s.at != s.main:
			s.show(false)
			s.restore()
		}
	default:
		for i, m := range reports {
			if m == n {
				s.modes.reports[i] = on
			}
		}
	}
}

// show switches to the alternate screen, which is blank, or back to the main screen.
func (s *Screen) show(alternate bool) {
	if alternate == (s.at != s.main) {
		return
	}
	s.moved = true
	if !alternate {
		s.at = s.main
		return
	}
	s.pause()
	if s.alt == nil {
		s.alt = newGrid(s.w, s.h)
	}
	for i := range s.alt.rows {
		s.alt.rows[i].recycle()
	}
	s.at = s.alt
}

// keyboard executes the kitty keyboard protocol: > pushes flags, < pops them, = sets them.
func (s *Screen) keyboard(c *csi) {
	switch c.mark {
	case '>':
		if len(s.kitty) == maxKitty {
			s.kitty = append(s.kitty[:0], s.kitty[1:]...)
		}
		s.kitty = append(s.kitty, c.at(0, 0))
	case '<':
		s.kitty = s.kitty[:max(0, len(s.kitty)-c.count(0))]
	case '=':
		if len(s.kitty) == 0 {
			s.kitty = append(s.kitty, 0)
		}
		top := &s.kitty[len(s.kitty)-1]
		switch flags := c.at(0, 0); c.at(1, 1) {
		case 1:
			*top = flags
		case 2:
			*top |= flags
		case 3:
			*top &^= flags
		}
	}
}
