package tui

import (
	"os/exec"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"polis/cmd/internal/agenttext"
	"polis/cmd/internal/bell"
	"polis/daemon/api"
)

// Model is the state of the screen.
type Model struct {
	daemon    Daemon
	workspace string
	now       func() time.Time
	tasks     *tasks
	border    lipgloss.Border

	width, height int

	agents  []api.Agent // those that wait for a person first, then by name
	leases  map[string][]api.Lock
	queue   map[string]api.QueueEntry
	cpu     map[string]usage
	output  map[string][]string
	events  []api.Event // the last maxEvents
	ready   bool        // the first look is done
	lookErr error
	lost    error // why no events come

	// polisctl is Options.Polisctl.
	polisctl func(args ...string) *exec.Cmd

	looking, again, soon, reading bool

	chosen string    // an agent's name
	place  int       // the row it was in
	moved  time.Time // when another agent was chosen than a person did: the chosen one was no longer shown
	unseen bool      // since then something else has been on the screen
	top    int       // the first row shown
	filter string

	asked     []api.Approval // open questions, oldest first
	questions *questions     // the screen of them; nil: it is closed
	bell      bell.Bell

	openCases []api.Case // of the patrol, oldest first
	cases     *cases     // the screen of them; nil: it is closed

	taskScreen *taskScreen // the screen of an agent's tasks; nil: it is closed

	pane    *pane
	help    bool
	helpTop int
	palette *palette // nil: it is closed
	input   *input
	ask     *question
	busy    map[string]string // what is being done, by agent
	note    string
	bad     bool // the note is a failure
}

func newModel(o Options, t *tasks) *Model {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	return &Model{border: borderOf(o.Getenv), daemon: o.Daemon, workspace: o.Workspace, now: o.Now, polisctl: o.Polisctl, tasks: t, width: 80, height: 24,
		output: map[string][]string{}, cpu: map[string]usage{}, busy: map[string]string{}, bell: bell.Bell{Getenv: o.Getenv}}
}

// Init looks for the first time.
func (m *Model) Init() tea.Cmd { return tea.Batch(m.look(), tick()) }

// Update takes one message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	m.choose() // there may be fewer rows now
	if m.unseen && !m.covered() {
		m.moved, m.unseen = m.now(), false
	}
	return m, cmd
}

func (m *Model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.MouseMsg:
		return m.mouse(msg)
	case tea.PasteMsg:
		if m.input != nil {
			m.input.add(msg.Content)
			m.filtered()
		}
	case tickMsg:
		return tea.Batch(m.look(), m.reload(false), m.readTasks(), tick())
	case soonMsg:
		m.soon = false
		return m.look()
	case lookMsg:
		return m.looked(msg)
	case outputMsg:
		m.reading = false
		m.written(msg)
	case eventMsg:
		if api.Event(msg).Probe() {
			return nil
		}
		if m.events = append(m.events, api.Event(msg)); len(m.events) >= 2*maxEvents {
			m.events = append([]api.Event(nil), m.events[len(m.events)-maxEvents:]...)
		}
		return m.lookSoon()
	case streamMsg:
		m.lost = msg.err
		return m.lookSoon()
	case wholeMsg:
		m.wholeRead(msg)
	case tasksMsg:
		return m.tasksRead(msg)
	case linesMsg:
		return m.arrived(msg)
	case doneMsg:
		return m.done(msg)
	}
	return nil
}

// written takes output over and forgets that of agents that are no more.
func (m *Model) written(out outputMsg) {
	for name, lines := range out {
		m.output[name] = lines
	}
	there := map[string]bool{}
	for _, g := range m.agents {
		there[g.Name] = true
	}
	for name := range m.output {
		if !there[name] {
			delete(m.output, name)
		}
	}
}

// waitingWord is the filter for the agents that wait for a person.
const waitingWord = "waiting"

// shown are the agents the filter lets through.
func (m *Model) shown() []api.Agent {
	if m.filter == "" {
		return m.agents
	}
	want := strings.ToLower(m.filter)
	var out []api.Agent
	for _, g := range m.agents {
		if strings.TrimSpace(want) == waitingWord {
			if agenttext.NeedsPerson(g) {
				out = append(out, g)
			}
			continue
		}
		text := strings.Join([]string{g.Name, g.Branch, g.BaseType, g.Workspace, g.Role, string(g.Status), state(g), m.fate(g)}, "\n")
		if strings.Contains(strings.ToLower(text), want) {
			out = append(out, g)
		}
	}
	return out
}

// choose keeps the chosen agent among those shown, and on the screen.
func (m *Model) choose() {
	shown := m.shown()
	at := m.index(shown)
	if at < 0 {
		at = max(0, min(m.place, len(shown)-1)) // the one that took the place of one that is gone
		if m.chosen != "" {
			m.moved, m.unseen = m.now(), m.covered()
		}
	}
	m.place = at
	m.chosen = ""
	if at < len(shown) {
		m.chosen = shown[at].Name
	}
	rows := m.rows()
	m.top = max(0, min(m.top, at, len(shown)-rows))
	if at >= m.top+rows {
		m.top = at - rows + 1
	}
}

func (m *Model) index(shown []api.Agent) int {
	for i, g := range shown {
		if g.Name == m.chosen {
			return i
		}
	}
	return -1
}

// move chooses the agent by so many places away.
func (m *Model) move(by int) tea.Cmd {
	shown := m.shown()
	if len(shown) == 0 {
		return nil
	}
	m.chosen = shown[max(0, min(len(shown)-1, m.index(shown)+by))].Name
	m.choose()
	return m.outputs()
}

// visible are the agents that have a row on the screen.
func (m *Model) visible() []api.Agent {
	shown := m.shown()
	top := min(m.top, len(shown))
	return shown[top:min(len(shown), top+m.rows())]
}

// target is the agent keys act on: that of the open pane, else the chosen one.
func (m *Model) target() (api.Agent, bool) {
	name := m.chosen
	if m.taskScreen != nil {
		name = m.taskScreen.agent
	}
	if m.pane != nil && m.pane.agent != "" {
		name = m.pane.agent
	}
	for _, g := range m.agents {
		if g.Name == name {
			return g, true
		}
	}
	return api.Agent{}, false
}

// fate is the merge status of an agent's branch, in a word.
func (m *Model) fate(g api.Agent) string {
	if e, ok := m.queue[g.Name]; ok {
		if e.State == api.QueueWaiting {
			return "queued"
		}
		return string(e.State)
	}
	return string(g.MergeStatus)
}

func (m *Model) say(text string)  { m.note, m.bad = text, false }
func (m *Model) fail(text string) { m.note, m.bad = text, true }
