package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"polis/daemon/api"
)

// palette is the list of commands, selected by what is typed: the words of a command, then the name of an agent and a text.
type palette struct {
	in     *input
	at     int
	agent  string // the one that commands are for, unless one is named
	task   string // the one that was selected, on a screen about tasks
	reason string // why there is none
}

func (m *Model) openPalette() tea.Cmd {
	in := &input{prompt: ": "}
	p := &palette{in: in}
	switch g, ok := m.target(); {
	case !ok:
		p.reason = "no agent is selected"
	case m.unsettled():
		p.reason = m.tookPlace() + ": do it again, or type the name of the agent behind the words"
	default:
		p.agent, p.task = g.Name, m.shownTask()
	}
	m.palette, m.input = p, in
	return nil
}

func (m *Model) closePalette() { m.palette, m.input = nil, nil }

// fields are the words of a text, each kind of space being one.
func fields(text string) []string { return strings.Fields(text) }

// matches are the commands that a typed text selects. A text that begins with the words of a command is that one.
// An agent is named behind all words of a command: where it would be one of the words that select, nothing is selected, as the
// command would be for another agent.
func (m *Model) matches(text string) (out []command) {
	if c, _, ok := exact(text); ok {
		return []command{c}
	}
	words := fields(strings.ToLower(text))
	agent := slices.ContainsFunc(fields(text), func(w string) bool { return m.named(w) >= 0 })
	var later []command
	for _, c := range commands() {
		named := strings.HasPrefix(c.words, strings.Join(words, " "))
		all := !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(c.words+" "+c.does, w) })
		switch {
		case named:
			out = append(out, c)
		case all && !agent:
			later = append(later, c)
		}
	}
	return append(out, later...)
}

// exact is the command with whose words a text begins, the longest, and what is behind them.
func exact(text string) (found command, rest string, ok bool) {
	typed := fields(text)
	for _, c := range commands() {
		words := fields(c.words)
		if len(words) <= len(typed) && slices.Equal(words, typed[:len(words)]) && len(words) > len(fields(found.words)) {
			found, ok = c, true
			rest = strings.TrimLeft(text, " ")
			for range words {
				_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			}
		}
	}
	return found, strings.TrimSpace(rest), ok
}

// paletteKey takes the keys of the palette that do not edit the text.
func (m *Model) paletteKey(s string) (cmd tea.Cmd, known bool) {
	p := m.palette
	found := m.matches(p.in.text)
	switch s {
	case "esc", "ctrl+p":
		m.closePalette()
	case "up":
		p.at = max(0, p.at-1)
	case "down":
		p.at = min(p.at+1, max(0, len(found)-1))
	case "tab":
		if p.at < len(found) {
			if _, rest, ok := exact(p.in.text); !ok || rest == "" {
				p.in.text, p.at = found[p.at].words+" ", 0
			}
		}
	case "enter":
		if p.at >= len(found) {
			m.closePalette()
			m.fail("there is no such command; : lists them, and NAME comes behind all words of one")
			return nil, true
		}
		return m.chosenCommand(found[p.at]), true
	default:
		return nil, false
	}
	return nil, true
}

// chosenCommand does a command of the palette, for the agent named behind its words or the selected one.
func (m *Model) chosenCommand(c command) tea.Cmd {
	_, rest, ok := exact(m.palette.in.text)
	if !ok {
		rest = "" // what is typed selected it, and says nothing else
	}
	p := m.palette
	m.closePalette()
	if c.task != nil {
		if rest == "" && p.task != "" {
			return c.task(m, p.task)
		}
		if strings.Contains(rest, ".") { // no name of an agent has one
			return m.namedTask(c, rest)
		}
	}
	var g api.Agent
	if c.agent {
		name, more := p.agent, ""
		if rest != "" {
			name, more, _ = strings.Cut(rest, " ")
		}
		i := m.named(name)
		switch {
		case i < 0 && rest != "":
			m.fail("there is no agent " + clean(name) + ": the name of one comes after " + c.words)
			return nil
		case name == "":
			m.fail(p.reason)
			return nil
		case i < 0:
			m.fail("nothing was done: agent " + clean(name) + " is gone")
			return nil
		}
		g, rest = m.agents[i], strings.TrimSpace(more)
	}
	switch {
	case rest == "":
		return c.act(m, g)
	case c.text == nil:
		m.fail("nothing was done: " + c.words + " takes no text")
		return nil
	}
	return c.text(m, g, rest)
}

// named is the place of the agent with a name, or -1.
func (m *Model) named(name string) int {
	return slices.IndexFunc(m.agents, func(g api.Agent) bool { return g.Name == name })
}

// paletteFrom is the first of n commands that is shown.
func (m *Model) paletteFrom(n int) int {
	rows := m.bodyHeight()
	return max(0, min(m.palette.at-rows/2, n-rows))
}

func (m *Model) paletteView() []string {
	p := m.palette
	found := m.matches(p.in.text)
	p.at = max(0, min(p.at, len(found)-1))
	h := m.bodyHeight()
	from := m.paletteFrom(len(found))
	var rows []string
	for i := from; i < min(len(found), from+h); i++ {
		c := found[i]
		line := fit(c.words, 24) + fit(c.key, 3) + c.does
		if i == p.at {
			rows = append(rows, chosenStyle.Render(fit("> "+line, m.inner())))
			continue
		}
		rows = append(rows, "  "+fit(c.words, 24)+keyStyle.Render(fit(c.key, 3))+dimStyle.Render(c.does))
	}
	if len(rows) == 0 {
		rows = []string{"  no command has these words"}
	}
	target := ""
	if p.agent != "" {
		target = "for " + clean(p.agent) + ", or type NAME behind the words"
	}
	if p.task != "" {
		target = "for " + clean(p.task) + ", or type NAME or ID behind the words"
	}
	return append(m.framed(titleStyle.Render("polis  commands"), target, rows, h, ""), m.foot()...)
}
