package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
	"polis/internal/escape"
)

// taskScreen is the tasks of an agent, the newest first, with the details of the chosen one below.
type taskScreen struct {
	agent   string
	all     []api.Task
	chosen  string   // an ID
	top     int      // of the details
	whole   api.Task // the chosen one, with its steps
	loading bool
	loaded  bool
	err     error
}

// tasksMsg is a list of tasks, and the chosen one of them with all that is shown of it.
type tasksMsg struct {
	screen *taskScreen
	all    []api.Task
	whole  api.Task
	err    error
}

func (m *Model) openTasks(agent string) tea.Cmd {
	m.taskScreen, m.pane, m.cases = &taskScreen{agent: agent}, nil, nil
	return m.readTasks()
}

// readTasks reads the list, and all of the chosen task or of the newest.
func (m *Model) readTasks() tea.Cmd {
	s := m.taskScreen
	if s == nil || s.loading {
		return nil
	}
	s.loading = true
	d, agent, id := m.daemon, s.agent, s.chosen
	return m.tasks.cmd(lookLimit, func(ctx context.Context) tea.Msg {
		msg := tasksMsg{screen: s}
		if msg.all, msg.err = d.Tasks(ctx, agent); msg.err != nil {
			return msg
		}
		// What was logged before tasks had IDs has nothing else to show.
		msg.all = slices.DeleteFunc(msg.all, func(t api.Task) bool { return t.ID == "" })
		slices.Reverse(msg.all)
		if id == "" && len(msg.all) > 0 {
			id = msg.all[0].ID
		}
		if slices.ContainsFunc(msg.all, func(t api.Task) bool { return t.ID == id }) {
			// Lists of tasks have no steps. A task can be removed in between: the next look says.
			if full, err := d.Task(ctx, id, 0); err == nil {
				msg.whole = full
			}
		}
		return msg
	})
}

// tasksRead takes a list over, unless the screen has been closed since.
func (m *Model) tasksRead(msg tasksMsg) tea.Cmd {
	s := m.taskScreen
	if s == nil || s != msg.screen {
		return nil
	}
	s.loading, s.loaded, s.err = false, true, msg.err
	if msg.err != nil {
		return nil
	}
	s.all = msg.all
	if m.taskIndex() < 0 {
		s.chosen, s.top = "", 0
		if len(s.all) > 0 {
			s.chosen = s.all[0].ID
		}
	}
	s.whole = msg.whole // none: what was read before is not of now
	if s.chosen != "" && s.whole.ID != s.chosen && msg.whole.ID != s.chosen && msg.whole.ID != "" {
		return m.readTasks() // another one was chosen meanwhile
	}
	return nil
}

func (m *Model) taskIndex() int {
	return slices.IndexFunc(m.taskScreen.all, func(t api.Task) bool { return t.ID == m.taskScreen.chosen })
}

// chooseTask chooses the one at a place, or the nearest.
func (m *Model) chooseTask(at int) tea.Cmd {
	s := m.taskScreen
	n := len(s.all)
	if n == 0 {
		return nil
	}
	s.chosen, s.top = s.all[max(0, min(at, n-1))].ID, 0
	return m.readTasks()
}

// taskKey takes a key on the screen of tasks.
func (m *Model) taskKey(key string) tea.Cmd {
	s := m.taskScreen
	page := max(1, m.detailRows(len(s.all))-1)
	switch key {
	case "q", "esc", "t":
		m.taskScreen = nil
		return m.outputs()
	case "?":
		m.openHelp()
	case "up", "k":
		return m.chooseTask(m.taskIndex() - 1)
	case "down", "j":
		return m.chooseTask(m.taskIndex() + 1)
	case "g", "home":
		return m.chooseTask(0)
	case "G", "end":
		return m.chooseTask(len(s.all) - 1)
	case "pgdown", "space":
		s.top += page
	case "pgup":
		s.top = max(0, s.top-page)
	case "r":
		return tea.Batch(m.look(), m.readTasks())
	case "d", "enter", "l":
		if s.chosen == "" {
			m.fail("no task is selected")
			return nil
		}
		kind := paneLog
		if key == "d" {
			kind = paneDiff
		}
		m.pane = &pane{kind: kind, agent: s.agent, task: s.chosen, end: kind != paneDiff}
		return m.reload(true)
	}
	return nil
}

func (m *Model) tasksView() []string {
	s := m.taskScreen
	none := "agent " + s.agent + " has had no task yet"
	switch {
	case s.err != nil:
		none = errText(s.err)
	case !s.loaded:
		none = "reading ..."
	}
	return m.chooserView(listScreen{
		title: "polis  tasks of " + clean(s.agent), count: api.Count(len(s.all), "task"), none: none, at: m.taskIndex(), n: len(s.all), top: &s.top, old: s.err != nil,
		line: func(i int) string {
			t := s.all[i]
			return verbatim(fmt.Sprintf("  %-12s %s  %-5s %-28s %s", t.ID, t.Time.Local().Format(time.TimeOnly), m.took(t), escape.Spaces(taskResult(t)), agenttext.FirstLine(t.Prompt, 200)))
		},
		details: func(i int) []string { return m.taskDetails(s.all[i]) },
	})
}

// took is how long a task ran, or runs.
func (m *Model) took(t api.Task) string {
	switch {
	case t.Began == nil:
		return "-"
	case t.Ended != nil:
		return agenttext.Span(t.Ended.Sub(*t.Began))
	case t.State == api.TaskRunning:
		return agenttext.Span(m.now().Sub(*t.Began))
	}
	return "-"
}

func taskResult(t api.Task) string {
	if t.Via != "" {
		return "(" + t.Via + ")"
	}
	return strings.ReplaceAll(t.Result, "\n", " ")
}
