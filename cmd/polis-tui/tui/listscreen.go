package tui

import (
	"fmt"
	"slices"
	"strings"
)

// listScreen is a screen with a list above, and the details of the chosen one below.
type listScreen struct {
	title, count, none string
	old                bool // what is shown could not be read again
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
	out := []string{m.topEdge(titleStyle.Render(s.title), m.current(s.count, s.old))}
	if s.at < 0 {
		h := m.bodyHeight()
		return append(append(append(out, m.box([]string{"  " + s.none}, h)...), m.lowEdge("", "")), m.foot()...)
	}
	from := m.listFrom(s.at, s.n)
	for i := from; i < min(s.n, from+rows); i++ {
		line := s.line(i)
		if i == s.at {
			line = chosenStyle.Render(fit(">"+strings.TrimPrefix(line, " "), m.inner()))
		}
		out = append(out, m.sides(line))
	}
	details, h := s.details(s.at), m.detailRows(s.n)
	*s.top = max(0, min(*s.top, len(details)-h))
	shown := slices.Clone(details[*s.top:min(len(details), *s.top+h)])
	where := ""
	if len(details) > h {
		where = fmt.Sprintf("%d-%d of %d", *s.top+1, *s.top+len(shown), len(details))
	}
	for i, line := range shown {
		if s.style != nil {
			shown[i] = s.style(line, details)
		}
	}
	out = append(append(out, m.midEdge("", where)), m.box(shown, h)...)
	return append(append(out, m.lowEdge("", "")), m.foot()...)
}

// current puts before a text about what is shown that it is not of now.
func (m *Model) current(text string, old bool) string {
	if old || m.lookErr != nil {
		return badStyle.Render("not connected") + "  " + text
	}
	return text
}

// listFrom is the first of n that is shown if the one at a place is chosen.
func (m *Model) listFrom(at, n int) int {
	rows := m.listRows(n)
	return max(0, min(at-rows/2, n-rows))
}
