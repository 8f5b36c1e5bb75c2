package tui

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// borderOf is the border for a terminal: of line characters if its locale has them.
func borderOf(getenv func(string) string) lipgloss.Border {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // the first that is set counts, as in locale(7)
		if v := strings.ToLower(getenv(name)); v != "" {
			if strings.Contains(v, "utf-8") || strings.Contains(v, "utf8") {
				return lipgloss.RoundedBorder()
			}
			break
		}
	}
	return lipgloss.ASCIIBorder()
}

// inner is the width inside a border.
func (m *Model) inner() int { return max(0, m.width-2) }

// edge is a horizontal line of a border with a text at each end; the right one gives way.
func (m *Model) edge(from, line, to, left, right string) string {
	room := m.inner() - 1
	if left != "" {
		left = ansi.Truncate(" "+left+" ", max(0, room), "~")
		room -= ansi.StringWidth(left)
	}
	if right != "" {
		if right = ansi.Truncate(right, max(0, room-4), "~"); right != "" {
			right = " " + right + " "
		}
		room -= ansi.StringWidth(right)
	}
	if right != "" {
		room--
		to = line + to
	}
	return borderStyle.Render(from+line) + left + borderStyle.Render(strings.Repeat(line, max(0, room))) + right + borderStyle.Render(to)
}

// topEdge, midEdge and lowEdge are the edges of a pane; left is its title.
func (m *Model) topEdge(left, right string) string {
	return m.edge(m.border.TopLeft, m.border.Top, m.border.TopRight, left, right)
}

func (m *Model) midEdge(left, right string) string {
	return m.edge(m.border.MiddleLeft, m.border.Top, m.border.MiddleRight, left, right)
}

func (m *Model) lowEdge(left, right string) string {
	return m.edge(m.border.BottomLeft, m.border.Bottom, m.border.BottomRight, left, right)
}

// sides puts a border at both sides of a line.
func (m *Model) sides(line string) string {
	return borderStyle.Render(m.border.Left) + fit(line, m.inner()) + borderStyle.Render(m.border.Right)
}

// framed is a pane: its title, exactly h lines, and its lower edge.
func (m *Model) framed(title, right string, lines []string, h int, below string) []string {
	out := []string{m.topEdge(title, right)}
	out = append(out, m.box(lines, h)...)
	return append(out, m.lowEdge(below, ""))
}

// box puts exactly h of lines between the sides.
func (m *Model) box(lines []string, h int) []string {
	out := make([]string, 0, h)
	for i := range h {
		line := ""
		if i < len(lines) {
			line = lines[i]
		}
		out = append(out, m.sides(line))
	}
	return out
}
