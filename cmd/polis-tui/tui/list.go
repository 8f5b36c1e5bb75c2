package tui

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"polis/cmd/internal/agenttext"
	"polis/cmd/internal/modeltext"
	"polis/daemon/api"
)

const (
	// outputLines is how many of an agent's last lines are requested.
	outputLines = 3
	// wideFrom is the width from which on a row has the last output.
	wideFrom = 110
	// costFrom is the width from which on a row has what its agent used of model services.
	costFrom = 124
	// detailHeight is the number of lines about the chosen agent.
	detailHeight = 5 + outputLines
	// tallFrom is the height from which on they are shown.
	tallFrom = 18
)

func (m *Model) wide() bool { return m.width >= wideFrom }
func (m *Model) tall() bool { return m.height >= tallFrom }

// rows is how many agents have room: the screen without borders, head, details
// and foot.
func (m *Model) rows() int {
	rows := m.height - 3 - len(m.foot())
	if m.tall() {
		rows -= detailHeight
	}
	return max(1, rows)
}

// column is one column of the list.
type column struct {
	head  string
	width int
	from  int // the width of a screen that has it
	text  func(api.Agent) string
	style func(string) lipgloss.Style
}

func (m *Model) columns() []column {
	name := 8
	for _, g := range m.agents {
		name = max(name, len(g.Name))
	}
	stateWidth := 8
	if m.wide() {
		name = min(name, 31)
		for _, g := range m.agents {
			stateWidth = max(stateWidth, min(20, len(state(g))))
		}
	}
	cols := []column{
		{head: "NAME", width: min(name, 14), text: func(g api.Agent) string { return g.Name }},
		{head: "STATE", width: stateWidth, text: func(g api.Agent) string {
			if s := state(g); m.wide() || !strings.HasPrefix(s, waitingWord) {
				return s
			}
			return waitingWord
		}, style: statusStyle},
		{head: "BRANCH", text: func(g api.Agent) string { return dash(g.Branch) }},
		{head: "MERGE", width: 9, text: func(g api.Agent) string { return dash(m.fate(g)) }, style: statusStyle},
		{head: "CPU", width: 4, from: 52, text: m.percent},
		{head: "MEM", width: 5, from: 58, text: func(g api.Agent) string { return size(g.MemoryBytes) }},
		{head: "LEASES", width: 6, from: 65, text: func(g api.Agent) string { return count(len(m.leases[g.Name])) }},
		{head: "PORTS", width: 11, from: 77, text: func(g api.Agent) string { return dash(strings.Join(external(g), ",")) }},
	}
	cols = slices.DeleteFunc(cols, func(c column) bool { return m.width < c.from })
	if m.wide() {
		cols[0].width = name
		cols = append(cols, column{head: "LAST OUTPUT", text: func(g api.Agent) string {
			return dash(strings.Join(tail(m.output[g.Name], 1), ""))
		}})
	}
	if models := func(g api.Agent) bool { return g.Models != nil }; m.width >= costFrom && slices.ContainsFunc(m.agents, models) {
		cols = slices.Insert(cols, len(cols)-1,
			column{head: "TOKENS", width: 6, text: func(g api.Agent) string { return modeltext.TokensOf(g.Models) }},
			column{head: "COST", width: 11, text: func(g api.Agent) string { return modeltext.Cost(g.Models) }})
	}
	// The columns without a width share what is left: two cells of the marker
	// and one between columns.
	room, open := m.inner()-2, 0
	for _, c := range cols {
		room -= c.width + 1
		if c.width == 0 {
			open++
		}
	}
	for i := range cols {
		if cols[i].width == 0 {
			cols[i].width = max(4, room/open)
			room, open = room-cols[i].width, open-1
		}
	}
	return cols
}

func (m *Model) listView() []string {
	cols := m.columns()
	head := "  "
	for _, c := range cols {
		head += fit(c.head, c.width) + " "
	}
	out := []string{m.topEdge(m.title()), m.sides(headStyle.Render(fit(head, m.inner())))}
	var rows []string
	for _, g := range m.visible() {
		rows = append(rows, m.row(cols, g))
	}
	if len(rows) == 0 {
		rows = append(rows, "  "+m.empty())
	}
	out = append(out, m.box(rows, m.rows())...)
	if m.tall() {
		out = append(out, m.details()...)
	}
	filter := ""
	if m.filter != "" {
		filter = fmt.Sprintf("filter %s: %d of %d", even(strconv.Quote(m.filter)), len(m.shown()), len(m.agents))
	}
	return append(append(out, m.lowEdge(filter, "")), m.foot()...)
}

func (m *Model) row(cols []column, g api.Agent) string {
	chosen := g.Name == m.chosen
	line := "  "
	if chosen {
		line = "> "
	}
	for _, c := range cols {
		text := c.text(g)
		cell := fit(clean(text), c.width)
		if c.style != nil && !chosen {
			cell = c.style(text).Render(cell)
		}
		line += cell + " "
	}
	if chosen {
		return chosenStyle.Render(fit(line, m.inner()))
	}
	return line
}

func (m *Model) empty() string {
	switch {
	case !m.ready:
		return "asking polisd ..."
	case strings.EqualFold(strings.TrimSpace(m.filter), waitingWord):
		return "no agent waits for you; esc drops the filter"
	case m.filter != "":
		return "no agent matches " + even(strconv.Quote(m.filter)) + "; esc drops the filter"
	}
	return "no agents yet: polisctl agents add NAME --base TYPE"
}

// details are the lines about the chosen agent, below an edge with its name.
func (m *Model) details() []string {
	for _, g := range m.agents {
		if g.Name == m.chosen {
			kind := ""
			if g.Waiting != nil { // the first line has no room for it
				kind = clean(g.BaseType + " in " + g.Workspace)
			}
			return append([]string{m.midEdge(titleStyle.Render(clean(g.Name)), kind)}, m.box(m.about(g), detailHeight-1)...)
		}
	}
	return append([]string{m.midEdge("", "")}, m.box(nil, detailHeight-1)...)
}

// state is an agent's state: one that waits does not work.
func state(g api.Agent) string {
	if g.Waiting != nil {
		return agenttext.WaitingState(g.Waiting)
	}
	return string(g.Status)
}

// frozen reports whether an agent's processes are frozen until a person decides.
func frozen(g api.Agent) bool { return g.Waiting != nil && g.Waiting.For == api.WaitingThaw }

// shownWhat is how much of a question the details of an agent have, in characters.
const shownWhat = 80

func (m *Model) about(g api.Agent) []string {
	first := fmt.Sprintf("%s is %s: %s in %s", g.Name, g.Status, g.BaseType, g.Workspace)
	if w := g.Waiting; w != nil {
		first = g.Name + ": " + agenttext.WaitedBy(w, m.now(), shownWhat, "A")
	}
	if g.StatusReason != "" {
		first += ", " + g.StatusReason
	}
	branch := dash(g.Branch)
	if f := m.fate(g); f != "" {
		branch += ", " + f
	}
	if g.Task != nil {
		first += ", task " + g.Task.Result
	}
	if g.MergeCommitSHA != "" {
		branch += " " + short(g.MergeCommitSHA)
	}
	if g.MemoryLimitMB > 0 {
		branch += fmt.Sprintf("   memory %s of %dM", size(g.MemoryBytes), g.MemoryLimitMB)
	}
	if u := g.Models; u != nil {
		branch += "   models " + strings.Join(slices.DeleteFunc([]string{modeltext.TokensOf(u) + " tokens", modeltext.Cost(u), modeltext.Budget(u)},
			func(s string) bool { return s == "" || s == modeltext.None || s == modeltext.None+" tokens" }), ", ")
	}
	var ports, leases []string
	for _, p := range g.PortMappings {
		ports = append(ports, fmt.Sprintf("%d at %s", p.Internal, net.JoinHostPort(p.Bind, strconv.Itoa(p.External))))
	}
	for _, l := range m.leases[g.Name] {
		leases = append(leases, l.Path)
	}
	out := []string{first, "branch  " + branch, "ports   " + list(ports, "polisctl ports list"), "leases  " + list(leases, "polisctl locks")}
	for i, line := range m.output[g.Name] {
		label := "        "
		if i == 0 {
			label = "output  "
		}
		out = append(out, label+line)
	}
	for i := range out {
		out[i] = verbatim(out[i])
	}
	if g.Waiting != nil {
		out[0] = statusStyle(state(g)).Render(fit(out[0], m.inner()))
	}
	return out
}

// percent is an agent's use of processors, 100% being all of one.
func (m *Model) percent(g api.Agent) string {
	u, ok := m.cpu[g.Name]
	if !ok || u.percent < 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", u.percent)
}

// external are the host's ports that lead to an agent.
func external(g api.Agent) []string {
	var out []string
	for _, p := range g.PortMappings {
		out = append(out, strconv.Itoa(p.External))
	}
	return out
}

// list names at most eight things; more is the command that lists all.
func list(all []string, more string) string {
	const most = 8
	if len(all) > most {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more: %s", len(all)-most, more)
	}
	return dash(strings.Join(all, ", "))
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
