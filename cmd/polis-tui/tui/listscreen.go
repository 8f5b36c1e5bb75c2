package tui

import "strings"

// listScreen is a screen with a list above, and the details of the chosen one below.
type listScreen struct {
	title, count, none string
	at, n              int  // the chosen one, -1 for none; how many there are
	top                *int // the first line of the details that is shown
	line               func(i int) string
	details            func(i int) []string
	style              func(line string, all []string) string // of a line of the details; may be nil
}

// listRows is how many of n have room above the details.
func (m *Model) listRows(n int) int { return max(1, min(n, (m.height-3)/3)) }

// detailRows is how many lines of the details have room below a list of n.
func (m *Model) detailRows(n int) int { return max(1, m.height-3-m.listRows(n)-len(m.foot())) }

func (m *Model) chooserView(s listScreen) []string {
	rows := m.listRows(s.n)
	out := []string{titleStyle.Render(between(s.title, s.count, m.width))}
	from := max(0, min(s.at-rows/2, s.n-rows))
	for i := from; i < min(s.n, from+rows); i++ {
		line := s.line(i)
		if i == s.at {
			line = chosenStyle.Render(fit(">"+line[1:], m.width))
		}
		out = append(out, line)
	}
	if s.at < 0 {
		return m.filled(append(out, "  "+s.none))
	}
	out = append(out, dimStyle.Render(strings.Repeat("-", m.width)))
	details := s.details(s.at)
	*s.top = max(0, min(*s.top, len(details)-m.detailRows(s.n)))
	for _, line := range details[*s.top:min(len(details), *s.top+m.detailRows(s.n))] {
		if s.style != nil {
			line = s.style(line, details)
		}
		out = append(out, line)
	}
	return m.filled(out)
}

// filled fills the screen up and puts the foot below.
func (m *Model) filled(out []string) []string {
	foot := m.foot()
	for len(out) < m.height-len(foot) {
		out = append(out, "")
	}
	return append(out[:max(0, m.height-len(foot))], foot...)
}
