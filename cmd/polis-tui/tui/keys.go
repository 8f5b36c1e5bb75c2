package tui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"polis/daemon/api"
)

// keyRow is a line of the help.
type keyRow struct{ keys, does string }

// keyTable is all keys, as the help shows them.
var keyTable = []keyRow{
	{"up down j k", "select an agent; scroll"},
	{"pgup pgdn g G", "page up, page down; first line, last line"},
	{"left right", "scroll a pane sideways"},
	{"enter l", "log of the agent"},
	{"d", "diff of the agent: its changes, committed or not"},
	{"t  K", "tasks of the agent and results; output of its last check"},
	{"L", "locks of the agent and who waits for them"},
	{"o  O", "leftovers: processes of its last command; end them (confirm)"},
	{"a  S", "attach (ctrl+p ctrl+q detaches); shell in its sandbox"},
	{"e  A  C", "events; questions of agents; cases of the patrol"},
	{"esc", "close; clear the filter"},
	{"/", "filter by name, branch, type, role, workspace or state"},
	{"c", "commit all changes of the agent (confirm)"},
	{"m", "merge the branch of the agent (confirm)"},
	{"u", "undo: revert its merge (confirm)"},
	{"D", "discard the agent and its branch (confirm)"},
	{"s  x", "make ready for tasks; stop (confirm)"},
	{"i", "say a line to a running agent, give a task to another"},
	{"b", "say a line to all running agents"},
	{"r", "reload everything"},
	{"ctrl+z", "suspend; fg resumes"},
	{"q ctrl+c", "quit"},
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
		m.help = false
		return nil
	case m.questions != nil:
		return m.questionKey(s)
	case m.cases != nil && m.pane == nil:
		return m.caseKey(s)
	case s == "A":
		return m.openQuestions()
	case s == "C":
		return m.showCases()
	}
	if cmd, ok := m.actionKey(s); ok {
		return cmd
	}
	switch s {
	case "q":
		if m.pane != nil {
			return m.closePane()
		}
		return m.leave()
	case "?":
		m.help = true
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

// actionKey takes a key that does something to an agent, or to all.
func (m *Model) actionKey(s string) (cmd tea.Cmd, known bool) {
	if s == "b" {
		m.input = &input{prompt: "broadcast: ", done: m.broadcast}
		return nil, true
	}
	g, ok := m.target()
	act := map[string]func(api.Agent) tea.Cmd{
		"s": func(g api.Agent) tea.Cmd { return m.start(g.Name) },
		"u": func(g api.Agent) tea.Cmd { return m.undo(g.Name) },
		"x": func(g api.Agent) tea.Cmd {
			return m.confirm("Stop "+g.Name+"? What it runs is ended, its work stays.", func() tea.Cmd { return m.stop(g.Name) })
		},
		"c": func(g api.Agent) tea.Cmd {
			return m.confirm("Commit all that "+g.Name+" has in no commit?", func() tea.Cmd { return m.commit(g.Name) })
		},
		"m": func(g api.Agent) tea.Cmd {
			return m.confirm(fmt.Sprintf("Merge %s (%s)?", g.Name, clean(g.Branch)), func() tea.Cmd { return m.merge(g.Name) })
		},
		"D": func(g api.Agent) tea.Cmd {
			return m.confirm(fmt.Sprintf("Discard %s and its branch %s? The work is saved in the trash.", g.Name, clean(g.Branch)), func() tea.Cmd { return m.discard(g.Name) })
		},
		"i": func(g api.Agent) tea.Cmd {
			prompt := "task for " + g.Name + ": "
			if g.Status == api.StatusRunning {
				prompt = "send to " + g.Name + ": "
			}
			m.input = &input{prompt: prompt, done: func(text string) tea.Cmd { return m.instruct(g, text) }}
			return nil
		},
		"L": func(g api.Agent) tea.Cmd { return m.open(paneLocks, g.Name) },
		"o": func(g api.Agent) tea.Cmd { return m.open(paneLeft, g.Name) },
		"K": func(g api.Agent) tea.Cmd { return m.open(paneCheck, g.Name) },
		"O": func(g api.Agent) tea.Cmd {
			return m.confirm("End what the last command of "+g.Name+" left running?", func() tea.Cmd { return m.endLeftovers(g.Name) })
		},
		"a": func(g api.Agent) tea.Cmd { return m.hand("agents", "attach", g.Name) },
		"S": func(g api.Agent) tea.Cmd { return m.hand("agents", "shell", g.Name) },
		"d": func(g api.Agent) tea.Cmd { return m.open(paneDiff, g.Name) },
		"t": func(g api.Agent) tea.Cmd { return m.open(paneTasks, g.Name) },
		"l": func(g api.Agent) tea.Cmd { return m.open(paneLog, g.Name) },
	}[s]
	if act == nil {
		return nil, false
	}
	if !ok {
		m.fail("no agent is selected")
		return nil, true
	}
	return act(g), true
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
	case "e":
		return m.open(paneEvents, "")
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
