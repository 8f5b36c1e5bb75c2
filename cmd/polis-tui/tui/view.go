package tui

import (
	"fmt"
	"sort"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"polis/cmd/internal/agenttext"
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
	keyStyle    = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	borderStyle = lipgloss.NewStyle().Faint(true)
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
	v.MouseMode = tea.MouseModeCellMotion // clicks and the wheel
	return v
}

func (m *Model) lines() []string {
	var lines []string
	switch {
	case m.width < minWidth || m.height < minHeight:
		lines = wrap(fmt.Sprintf("polis needs %d by %d cells; q leaves", minWidth, minHeight), m.width, m.height)
	case m.help:
		lines = m.helpView()
	case m.palette != nil:
		lines = m.paletteView()
	case m.questions != nil:
		lines = m.questionsView()
	case m.cases != nil && m.pane == nil:
		lines = m.casesView()
	case m.taskScreen != nil && m.pane == nil:
		lines = m.tasksView()
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

// title is how many of everything there are, and whether what is shown is of now.
func (m *Model) title() (left, right string) {
	running, leases := 0, 0
	for _, g := range m.agents {
		if g.Status == api.StatusRunning {
			running++
		}
		leases += len(m.leases[g.Name])
	}
	left = titleStyle.Render(fmt.Sprintf("polis  %s", api.Count(len(m.agents), "agent")))
	if m.workspace != "" {
		left += " in " + clean(m.workspace)
	}
	// What waits for a person comes first: the end has no room on a narrow terminal.
	if n := len(m.asked); n > 0 {
		left += ", " + warnStyle.Render(fmt.Sprintf("%s (A)", api.Count(n, "question")))
	}
	if n := len(m.openCases); n > 0 {
		left += ", " + badStyle.Render(fmt.Sprintf("%s (C)", api.Count(n, "case")))
	}
	left += fmt.Sprintf(", %d running", running)
	if n := len(m.queue); n > 0 {
		left += fmt.Sprintf(", %d to merge", n)
	}
	if leases > 0 {
		left += ", " + api.Count(leases, "lease")
	}
	switch {
	case m.lookErr != nil:
		// What was known stays, but that it is old must be seen.
		return ansi.Truncate(left, max(0, m.inner()/2), "~"), badStyle.Render("not connected: " + clean(m.lookErr.Error()))
	case m.lost != nil:
		return left, warnStyle.Render("reconnecting")
	case !m.ready:
		return left, "connecting"
	}
	return left, goodStyle.Render("live")
}

// foot is what is below: a question, a line being typed or a message, and the
// keys.
func (m *Model) foot() []string {
	var lines []string
	style := plainStyle
	switch {
	case m.ask != nil:
		lines, style = asked(even(m.ask.text), m.width, 4), warnStyle
	case m.input != nil:
		// The end of the line is what is being typed.
		room := m.width - ansi.StringWidth(m.input.prompt) - 1
		text := even(m.input.text)
		if over := ansi.StringWidth(text) - room; over > 0 {
			text = ansi.TruncateLeft(text, over, "")
		}
		lines = []string{m.input.prompt + text + "_"}
	case len(m.busy) > 0:
		lines = []string{m.doing() + " ..."}
	case m.note != "":
		lines = wrap(even(m.note), m.width, 4)
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
	return append(lines, m.hintLine())
}

// asked is a question in at most n lines of w cells, with its answers at the end, however long it is.
func asked(text string, w, n int) []string {
	const answers = " [y/N]"
	lines := wrap(text+answers, w, n+1)
	if len(lines) > n {
		lines = lines[:n]
		lines[n-1] = ansi.Truncate(lines[n-1], max(0, w-len(answers)-1), "") + "~" + answers
	}
	return lines
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

// helpView is the list of keys; it scrolls where it has no room.
func (m *Model) helpView() []string {
	var lines []string
	for _, r := range keyTable {
		lines = append(lines, keyStyle.Render(fit("  "+r.keys, 17))+r.does)
	}
	h := m.bodyHeight()
	m.helpTop = max(0, min(m.helpTop, len(lines)-h))
	shown := lines[m.helpTop:min(len(lines), m.helpTop+h)]
	where := fmt.Sprintf("%d-%d of %d", m.helpTop+1, m.helpTop+len(shown), len(lines))
	return append(m.framed(titleStyle.Render("polis  keys"), where, shown, h, ""), m.foot()...)
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
	switch s {
	case string(api.StatusRunning), string(api.MergeMerged):
		return goodStyle
	case string(api.StatusError), string(api.MergePending), agenttext.Frozen:
		return badStyle
	case string(api.StatusStopped):
		return dimStyle
	case string(api.StatusCreating), string(api.QueueMerging), string(api.QueueChecking):
		return warnStyle
	}
	if strings.HasPrefix(s, waitingWord) {
		return warnStyle
	}
	return plainStyle
}
