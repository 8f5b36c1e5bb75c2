package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"polis/daemon/api"
)

// cases is the screen of what the patrol has left open.
type cases struct {
	chosen string // an ID
	top    int    // of the details
}

func (m *Model) showCases() tea.Cmd {
	m.cases, m.pane, m.taskScreen = &cases{}, nil, nil
	m.chooseCase(0)
	return m.look()
}

// casesRead takes a list over. A case that took the place of a resolved one needs no pause before
// keys count: each of them names the case, or the agent, before anything is done.
func (m *Model) casesRead(all []api.Case) {
	at := m.caseIndex()
	m.openCases = all
	if s := m.cases; s != nil && m.caseIndex() < 0 {
		gone := s.chosen
		m.chooseCase(at)
		if gone != "" && (m.note == "" || m.bad) { // the result of a key stays
			m.say(gone + " is resolved")
		}
	}
}

func (m *Model) caseIndex() int {
	if m.cases == nil {
		return -1
	}
	return slices.IndexFunc(m.openCases, func(c api.Case) bool { return c.ID == m.cases.chosen })
}

// chooseCase chooses the one at a place, or the nearest.
func (m *Model) chooseCase(at int) {
	m.cases.chosen, m.cases.top = "", 0
	if n := len(m.openCases); n > 0 {
		m.cases.chosen = m.openCases[max(0, min(at, n-1))].ID
	}
}

// caseKey takes a key on the screen of cases.
func (m *Model) caseKey(s string) tea.Cmd {
	page := max(1, m.detailRows(len(m.openCases))-1)
	switch s {
	case "q", "esc", "C":
		m.cases = nil
		return m.outputs()
	case "?":
		m.openHelp()
	case "up", "k":
		m.chooseCase(m.caseIndex() - 1)
	case "down", "j":
		m.chooseCase(m.caseIndex() + 1)
	case "pgdown", "space":
		m.cases.top += page
	case "pgup":
		m.cases.top = max(0, m.cases.top-page)
	case "r", "t", "x", "l", "enter", "d", "w":
		at := m.caseIndex()
		if at < 0 {
			m.fail("no case is open")
			return nil
		}
		return m.caseAction(s, m.openCases[at])
	}
	return nil
}

func (m *Model) caseAction(s string, c api.Case) tea.Cmd {
	if s == "r" {
		m.input = &input{prompt: "resolve " + c.ID + ", note: ", empty: true, done: func(text string) tea.Cmd { return m.resolveCase(c.ID, strings.TrimSpace(text)) }}
		return nil
	}
	i := slices.IndexFunc(m.agents, func(g api.Agent) bool { return g.Name == c.Agent && g.Workspace == c.Workspace })
	if i < 0 {
		m.fail("agent " + c.Agent + " is gone")
		return nil
	}
	switch s {
	case "l", "enter":
		return m.open(paneLog, c.Agent)
	case "d":
		return m.open(paneDiff, c.Agent)
	case "w":
		if c.Rewind == "" {
			m.fail(c.ID + " has no checkpoint from before it")
			return nil
		}
		return m.confirm("Rewind "+c.Agent+" to "+c.Rewind+"? Its files are brought back to what they were before; this can be undone.", func() tea.Cmd { return m.rewind(c.Agent, c.Rewind) })
	case "x":
		return m.confirm("Stop "+c.Agent+"? What it runs is ended, its work stays.", func() tea.Cmd { return m.stop(c.Agent) })
	}
	return m.askThaw(m.agents[i])
}

func (m *Model) askThaw(g api.Agent) tea.Cmd {
	if !frozen(g) {
		m.fail("agent " + g.Name + " is not frozen")
		return nil
	}
	return m.confirm("Thaw "+g.Name+"? Its processes continue where they were.", func() tea.Cmd { return m.thaw(g.Name) })
}

func (m *Model) resolveCase(id, note string) tea.Cmd {
	d := m.daemon
	return m.begin(id, "resolving "+id, lookLimit, func(ctx context.Context) doneMsg {
		_, err := d.ResolveCase(ctx, id, api.ResolveRequest{Note: note})
		return doneMsg{err: err, text: id + " is resolved; the agent stays as it is"}
	})
}

func (m *Model) thaw(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "thawing "+name, actionLimit, func(ctx context.Context) doneMsg {
		_, err := d.Thaw(ctx, name)
		return doneMsg{err: err, text: "agent " + name + " continues"}
	})
}

func (m *Model) rewind(name, to string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "rewinding "+name, actionLimit, func(ctx context.Context) doneMsg {
		r, err := d.Rewind(ctx, name, api.RewindRequest{To: to})
		text := api.Count(r.Changed, "path") + " of agent " + name + " brought back"
		if r.Before != "" {
			text += "; polisctl rewind " + name + " --to " + r.Before + " undoes it"
		}
		return doneMsg{err: err, text: text}
	})
}

func (m *Model) casesView() []string {
	return m.chooserView(listScreen{
		title: "polis  cases of the patrol", count: api.Count(len(m.openCases), "open case"), none: "no case is open",
		at: m.caseIndex(), n: len(m.openCases), top: &m.cases.top,
		line: func(i int) string {
			c := m.openCases[i]
			return verbatim(fmt.Sprintf("  %-8s %s  %-15s %-12s %-9s %s", c.ID, c.Opened.Local().Format(time.TimeOnly), c.StateText(), c.Agent, c.Kind, strings.Join(c.Evidence, "; ")))
		},
		details: func(i int) []string { return m.caseDetails(m.openCases[i]) },
	})
}

// caseDetails are the lines about a case.
func (m *Model) caseDetails(c api.Case) []string {
	var out []string
	say := func(label, text string) { out = append(out, labelled(label, text, m.inner())...) }
	agent := c.Agent + " in " + c.Workspace
	if c.Task != "" {
		agent += ", task " + c.Task
	}
	for _, g := range m.agents {
		if g.Name == c.Agent && g.Workspace == c.Workspace {
			agent += ", now " + state(g)
		}
	}
	say("agent", agent)
	opened := fmt.Sprintf("%s, found %s", c.Opened.Local().Format(time.DateTime), api.Count(c.Seen, "time"))
	if c.Escalated > 0 {
		opened += ", escalated " + api.Count(c.Escalated, "time")
	}
	say("opened", opened)
	for _, e := range c.Evidence {
		say("seen", e)
	}
	say("ends when", c.Resolves)
	say("next", c.Next)
	return out
}
