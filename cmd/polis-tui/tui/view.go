package tui

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"polis/daemon/api"
)

// Styles. No information is in colour alone.
var (
	titleStyle  = lipgloss.NewStyle().Bold(true)
	headStyle   = lipgloss.NewStyle().Bold(true)
	dimStyle    = lipgloss.NewStyle().Faint(true)
	chosenStyle = lipgloss.NewStyle().Reverse(true)
	goodStyle   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	warnStyle   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	badStyle    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	plainStyle  = lipgloss.NewStyle()
)

// The least a screen can be.
const (
	minWidth  = 40
	minHeight = 10
)

// View draws the screen: exactly height lines of at most width cells.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

func (m *Model) lines() []string {
	var lines []string
	switch {
	case m.width < minWidth || m.height < minHeight:
		lines = wrap(fmt.Sprintf("polis needs %d by %d cells; q leaves", minWidth, minHeight), m.width, m.height)
	case m.help:
		lines = m.helpView()
	case m.questions != nil:
		lines = m.questionsView()
	case m.cases != nil && m.pane == nil:
		lines = m.casesView()
	case m.pane != nil:
		lines = m.paneView()
	default:
		lines = m.listView()
	}
	lines = lines[:min(len(lines), max(0, m.height))]
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "~")
	}
	return lines
}

// between puts left and right at the two ends of a line; right gives way.
func between(left, right string, w int) string {
	room := w - ansi.StringWidth(left) - 2
	if room < ansi.StringWidth(right) {
		right = ansi.Truncate(right, max(0, room), "~")
	}
	return left + strings.Repeat(" ", max(1, w-ansi.StringWidth(left)-ansi.StringWidth(right))) + right
}

// title is the first line: how many of everything, and whether what is shown
// is of now.
func (m *Model) title() string {
	running, leases := 0, 0
	for _, g := range m.agents {
		if g.Status == api.StatusRunning {
			running++
		}
		leases += len(m.leases[g.Name])
	}
	left := fmt.Sprintf("polis  %s, %d running, %s", api.Count(len(m.agents), "agent"), running, api.Count(leases, "lease"))
	if n := len(m.queue); n > 0 {
		left += fmt.Sprintf(", %d to merge", n)
	}
	if n := len(m.asked); n > 0 {
		left += fmt.Sprintf(", %s (A)", api.Count(n, "question"))
	}
	if n := len(m.openCases); n > 0 {
		left += fmt.Sprintf(", %s (C)", api.Count(n, "case"))
	}
	if m.workspace != "" {
		left += " in " + clean(m.workspace)
	}
	state := "live"
	switch {
	case m.lookErr != nil:
		state = "not connected: " + clean(m.lookErr.Error())
	case m.lost != nil:
		state = "reconnecting"
	case !m.ready:
		state = "connecting"
	}
	return titleStyle.Render(between(left, state, m.width))
}

// foot is what is below: a question, a line being typed or a message, and the
// keys.
func (m *Model) foot() []string {
	var lines []string
	style := plainStyle
	switch {
	case m.ask != nil:
		lines, style = wrap(m.ask.text+" [y/N]", m.width, 4), warnStyle
	case m.input != nil:
		// The end of the line is what is being typed.
		room := m.width - ansi.StringWidth(m.input.prompt) - 1
		text := m.input.text
		if over := ansi.StringWidth(text) - room; over > 0 {
			text = ansi.TruncateLeft(text, over, "")
		}
		lines = []string{m.input.prompt + text + "_"}
	case len(m.busy) > 0:
		lines = []string{m.doing() + " ..."}
	case m.note != "":
		lines = wrap(m.note, m.width, 4)
		if m.bad {
			style = badStyle
		}
	case len(m.events) > 0 && m.pane == nil:
		lines, style = []string{eventLine(m.events[len(m.events)-1])}, dimStyle
	default:
		lines = []string{""}
	}
	for i := range lines {
		lines[i] = style.Render(ansi.Truncate(lines[i], m.width, "~"))
	}
	return append(lines, dimStyle.Render(ansi.Truncate(m.hints(), m.width, "~")))
}

func (m *Model) hints() string {
	switch {
	case m.ask != nil:
		return "y yes  any other key: no"
	case m.input != nil:
		return "enter done  esc cancel"
	case m.questions != nil:
		return "a once  t task  g agent  r role  d deny  x end task  j k select  pgdn more  esc back"
	case m.cases != nil && m.pane == nil:
		return "r resolve  t thaw  w rewind  x stop  l log  d diff  j k select  pgdn more  esc back"
	case m.pane != nil:
		return "esc back  j k scroll  m merge  u undo  D discard  i send  r reload  ? help"
	}
	return "enter log  d diff  m merge  u undo  D discard  s start  x stop  ? help  q quit"
}

// doing is what is being done now.
func (m *Model) doing() string {
	var all []string
	for _, what := range m.busy {
		all = append(all, what)
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

func (m *Model) helpView() []string {
	lines := []string{titleStyle.Render(between("polis  keys", "any key: back", m.width)), ""}
	for _, r := range keyTable {
		lines = append(lines, fmt.Sprintf("  %-14s %s", r.keys, r.does))
	}
	return lines
}

// diffStyle is the colour of a line of a patch.
func diffStyle(line string, all []string, left int) lipgloss.Style {
	switch {
	case left > 0 || len(all) == 0: // its first character is not on the screen
		return plainStyle
	case strings.HasPrefix(line, "@@"):
		return dimStyle
	case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		return headStyle
	case strings.HasPrefix(line, "+"):
		return goodStyle
	case strings.HasPrefix(line, "-"):
		return badStyle
	}
	return plainStyle
}

// statusStyle is the colour of a state.
func statusStyle(s string) lipgloss.Style {
	switch {
	case slices.Contains([]string{string(api.StatusRunning), string(api.MergeMerged)}, s):
		return goodStyle
	case slices.Contains([]string{string(api.StatusError), string(api.MergePending), waitingState, frozenState}, s):
		return badStyle
	case s == string(api.StatusStopped):
		return dimStyle
	}
	return plainStyle
}
