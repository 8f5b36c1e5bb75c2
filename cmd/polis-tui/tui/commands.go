package tui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"polis/daemon/api"
)

// command is something that can be done from the list and from a pane: by its key, and in the palette by its words.
type command struct {
	key   string // "" if it has none
	words string // as polisctl has it
	does  string
	agent bool // it is about the selected agent
	act   func(m *Model, g api.Agent) tea.Cmd
	text  func(m *Model, g api.Agent, text string) tea.Cmd // with a text behind its words; nil if it takes none
	task  func(m *Model, id string) tea.Cmd                // for a task, by its ID or selected; nil if it is not about tasks
}

// commands are all of them. Each asks before it changes what is hard to undo.
func commands() []command {
	return []command{
		{key: "l", words: "agents watch", does: "log of the agent", agent: true, act: paneOf(paneLog)},
		{key: "d", words: "diff", does: "changes of the agent, committed or not", agent: true, act: paneOf(paneDiff)},
		{key: "t", words: "tasks", does: "tasks of the agent, with diff and output", agent: true, act: func(m *Model, g api.Agent) tea.Cmd { return m.openTasks(g.Name) }},
		{words: "tasks cancel", does: "end, drop or dismiss a task: by ID, else its own", agent: true, act: (*Model).cancelWork, task: (*Model).cancelTask},
		{words: "tasks retry", does: "give it a task again: by ID, else the last", agent: true, act: (*Model).retryLast, task: (*Model).retryTask},
		{key: "i", words: "say", does: "say a line to an agent at work, else a task", agent: true, act: instructKey, text: (*Model).instruct},
		{words: "run", does: "give the agent a task", agent: true, act: func(m *Model, g api.Agent) tea.Cmd {
			m.input = &input{prompt: "task for " + g.Name + ": ", done: func(text string) tea.Cmd { return m.runTask(g, text) }}
			return nil
		}, text: (*Model).runTask},
		{key: "A", words: "approvals", does: "questions of agents", act: func(m *Model, _ api.Agent) tea.Cmd { return m.openQuestions() }},
		{key: "C", words: "patrol cases", does: "cases of the patrol", act: func(m *Model, _ api.Agent) tea.Cmd { return m.showCases() }},
		{key: "m", words: "merge", does: "merge the branch of the agent", agent: true, act: func(m *Model, g api.Agent) tea.Cmd {
			return m.confirm(fmt.Sprintf("Merge %s (%s)?", g.Name, clean(g.Branch)), func() tea.Cmd { return m.merge(g.Name) })
		}},
		{key: "u", words: "revert", does: "revert its merge", agent: true, act: func(m *Model, g api.Agent) tea.Cmd { return m.undo(g.Name) }},
		{key: "c", words: "agents commit", does: "commit all changes of the agent", agent: true, act: func(m *Model, g api.Agent) tea.Cmd {
			return m.confirm("Commit all that "+g.Name+" has in no commit?", func() tea.Cmd { return m.commit(g.Name) })
		}},
		{key: "D", words: "discard", does: "discard the agent and its branch", agent: true, act: func(m *Model, g api.Agent) tea.Cmd {
			return m.confirm(fmt.Sprintf("Discard %s and its branch %s? The work is saved in the trash.", g.Name, clean(g.Branch)), func() tea.Cmd { return m.discard(g.Name) })
		}},
		{words: "rewind", does: "bring its files back: ID, 5m, before task 3", agent: true, act: rewindKey, text: (*Model).lookBack},
		{key: "s", words: "agents start", does: "make the agent ready for tasks", agent: true, act: func(m *Model, g api.Agent) tea.Cmd { return m.start(g.Name) }},
		{key: "x", words: "agents stop", does: "stop the agent", agent: true, act: func(m *Model, g api.Agent) tea.Cmd {
			return m.confirm("Stop "+g.Name+"? What it runs is ended, its work stays.", func() tea.Cmd { return m.stop(g.Name) })
		}},
		{words: "agents thaw", does: "let a frozen agent continue", agent: true, act: func(m *Model, g api.Agent) tea.Cmd { return m.askThaw(g) }},
		{key: "a", words: "agents attach", does: "attach to its program; ctrl+p ctrl+q detaches", agent: true, act: func(m *Model, g api.Agent) tea.Cmd { return m.hand("agents", "attach", g.Name) }},
		{key: "S", words: "agents shell", does: "shell in its sandbox", agent: true, act: func(m *Model, g api.Agent) tea.Cmd { return m.hand("agents", "shell", g.Name) }},
		{key: "L", words: "agents locks", does: "its locks, and who waits for them", agent: true, act: paneOf(paneLocks)},
		{key: "o", words: "agents leftovers", does: "processes that its last command left", agent: true, act: paneOf(paneLeft)},
		{key: "O", words: "agents leftovers --end", does: "end these processes", agent: true, act: func(m *Model, g api.Agent) tea.Cmd {
			return m.confirm("End what the last command of "+g.Name+" left running?", func() tea.Cmd { return m.endLeftovers(g.Name) })
		}},
		{key: "K", words: "queue log", does: "output of its last check", agent: true, act: paneOf(paneCheck)},
		{key: "e", words: "events", does: "what happened", act: func(m *Model, _ api.Agent) tea.Cmd { return m.open(paneEvents, "") }},
		{key: "b", words: "broadcast", does: "say a line to all running agents", act: func(m *Model, _ api.Agent) tea.Cmd {
			m.input = &input{prompt: "broadcast: ", done: m.broadcast}
			return nil
		}, text: func(m *Model, _ api.Agent, text string) tea.Cmd { return m.broadcast(text) }},
	}
}

// paneOf opens a pane about an agent.
func paneOf(kind string) func(*Model, api.Agent) tea.Cmd {
	return func(m *Model, g api.Agent) tea.Cmd { return m.open(kind, g.Name) }
}

func instructKey(m *Model, g api.Agent) tea.Cmd {
	prompt := "task for " + g.Name + ": "
	if g.Status == api.StatusRunning {
		prompt = "send to " + g.Name + ": "
	}
	m.input = &input{prompt: prompt, done: func(text string) tea.Cmd { return m.instruct(g, text) }}
	return nil
}

// commandKey does what the key of a command does.
func (m *Model) commandKey(key string) (cmd tea.Cmd, known bool) {
	for _, c := range commands() {
		if c.key != key {
			continue
		}
		g, ok := m.target()
		if c.agent && !ok {
			m.fail("no agent is selected")
			return nil, true
		}
		if m.unsettled() && (c.agent || !m.covered()) {
			advice := ": look at it, and press the key again"
			if m.covered() {
				advice = ": close this, and look at it first"
			}
			m.moved = m.now() // what follows without a pause was typed with it
			m.fail(m.tookPlace() + advice)
			return nil, true
		}
		return c.act(m, g), true
	}
	return nil, false
}
