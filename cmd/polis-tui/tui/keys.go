package tui

import tea "charm.land/bubbletea/v2"

// keyRow is a line of the help.
type keyRow struct{ keys, does string }

// keyTable is all keys, as the help shows them.
var keyTable = []keyRow{
	{"up down j k", "select an agent; scroll"},
	{"pgup pgdn g G", "page up, page down; first line, last line"},
	{"left right", "scroll a pane sideways"},
	{"mouse", "click selects, then opens; wheel scrolls; shift+drag copies"},
	{": ctrl+p", "commands, by the words of polisctl"},
	{"/", "filter by name, branch, type, role, state; waiting: for you"},
	{"enter l", "log of the agent"},
	{"d", "diff of the agent: its changes, committed or not"},
	{"t  K", "tasks with diff and output; output of its last check"},
	{"L", "locks of the agent and who waits for them"},
	{"o  O", "leftovers: processes of its last command; end them (confirm)"},
	{"a  S", "attach (ctrl+p ctrl+q detaches); shell in its sandbox"},
	{"A  C  e", "questions of agents; cases of the patrol; events"},
	{"i  b", "say a line to an agent at work, else a task; say it to all"},
	{"c", "commit all changes of the agent (confirm)"},
	{"m  u", "merge the agent's branch; undo: revert its merge (confirm)"},
	{"D", "discard the agent and its branch (confirm)"},
	{"s  x", "make ready for tasks; stop (confirm)"},
	{"esc  q", "close, clear the filter; close, quit (ctrl+c quits)"},
	{"r  ctrl+z", "reload everything; suspend (fg resumes)"},
}

// key takes a key.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	s := k.String()
	switch {
	case s == "ctrl+c":
		return tea.Quit
	case s == "ctrl+z":
		return tea.Suspend
	case m.ask != nil:
		return m.answered(s)
	case m.input != nil:
		return m.typed(k)
	case m.help:
		m.helpKey(s)
		return nil
	case m.questions != nil:
		return m.questionKey(s)
	case m.cases != nil && m.pane == nil:
		return m.caseKey(s)
	case s == ":" || s == "ctrl+p":
		return m.openPalette()
	case m.taskScreen != nil && m.pane == nil:
		return m.taskKey(s)
	case m.pane != nil && m.pane.task != "":
		return m.taskPaneKey(s)
	}
	if cmd, ok := m.commandKey(s); ok {
		return cmd
	}
	switch s {
	case "q":
		if m.pane != nil {
			return m.closePane()
		}
		return m.leave()
	case "?":
		m.openHelp()
	case "esc":
		if m.pane != nil {
			return m.closePane()
		}
		m.filter, m.note = "", ""
		m.choose()
	case "r":
		return tea.Batch(m.look(), m.reload(true))
	default:
		if m.pane != nil {
			m.paneKey(s)
			return nil
		}
		return m.listKey(s)
	}
	return nil
}

func (m *Model) openHelp() { m.help, m.helpTop = true, 0 }

// helpKey scrolls the help; every other key closes it.
func (m *Model) helpKey(s string) {
	switch s {
	case "down", "j", "pgdown", "space":
		m.helpTop++
		if s == "pgdown" || s == "space" {
			m.helpTop += max(1, m.bodyHeight()-1)
		}
	case "up", "k":
		m.helpTop = max(0, m.helpTop-1)
	case "pgup":
		m.helpTop = max(0, m.helpTop-m.bodyHeight())
	default:
		m.help = false
	}
}

// taskPaneKey takes a key in a pane about one task. The keys of agents do nothing there: what is on the screen is not what
// they would change.
func (m *Model) taskPaneKey(s string) tea.Cmd {
	switch s {
	case "q", "esc", "enter":
		return m.closePane()
	case "?":
		m.openHelp()
	case "r":
		return m.reload(true)
	default:
		m.paneKey(s)
	}
	return nil
}

// answered takes the answer to a question: only y is a yes.
func (m *Model) answered(s string) tea.Cmd {
	q := m.ask
	m.ask = nil
	if s == "y" || s == "Y" {
		return q.yes()
	}
	m.say("nothing was done")
	return nil
}

func (m *Model) closePane() tea.Cmd {
	m.pane = nil
	return m.outputs()
}

// leave asks for a confirmation while an action runs: its result would not be seen.
func (m *Model) leave() tea.Cmd {
	if len(m.busy) == 0 {
		return tea.Quit
	}
	m.ask = &question{text: "Leave? Not done yet: " + m.doing() + ".", yes: func() tea.Cmd { return tea.Quit }}
	return nil
}

func (m *Model) confirm(text string, yes func() tea.Cmd) tea.Cmd {
	m.ask = &question{text: text, yes: yes}
	return nil
}

func (m *Model) listKey(s string) tea.Cmd {
	const far = 1 << 30
	switch s {
	case "up", "k":
		return m.move(-1)
	case "down", "j":
		return m.move(1)
	case "pgup":
		return m.move(-m.rows())
	case "pgdown":
		return m.move(m.rows())
	case "g", "home":
		return m.move(-far)
	case "G", "end":
		return m.move(far)
	case "enter":
		if g, ok := m.target(); ok {
			return m.open(paneLog, g.Name)
		}
	case "/":
		m.input = &input{prompt: "filter: ", text: m.filter, filter: true, before: m.filter}
	}
	return nil
}

func (m *Model) paneKey(s string) {
	const far, side = 1 << 30, 8
	page := max(1, m.bodyHeight()-1)
	switch s {
	case "up", "k":
		m.scroll(-1)
	case "down", "j":
		m.scroll(1)
	case "pgup":
		m.scroll(-page)
	case "pgdown", "space":
		m.scroll(page)
	case "g", "home":
		m.scroll(-far)
	case "G", "end":
		m.scroll(far)
	case "left":
		m.pane.left = max(0, m.pane.left-side)
	case "right":
		m.pane.left = min(maxLine, m.pane.left+side)
	case "enter":
		m.pane = nil
		m.choose()
	}
}
