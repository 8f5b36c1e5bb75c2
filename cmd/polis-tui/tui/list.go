package tui

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

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

// rows is how many agents have room: the screen without title, head, details
// and foot.
func (m *Model) rows() int {
	rows := m.height - 2 - len(m.foot())
	if m.tall() {
		rows -= detailHeight
	}
	return max(1, rows)
}

// column is one column of the list.
type column struct {
	head  string
	width int
	text  func(api.Agent) string
	style func(string) lipgloss.Style
}

func (m *Model) columns() []column {
	name := 8
	for _, g := range m.agents {
		name = max(name, len(g.Name))
	}
	cols := []column{
		{head: "NAME", width: min(name, 14), text: func(g api.Agent) string { return g.Name }},
		{head: "STATE", width: 8, text: state, style: statusStyle},
		{head: "BRANCH", text: func(g api.Agent) string { return dash(g.Branch) }},
		{head: "MERGE", width: 9, text: func(g api.Agent) string { return dash(m.fate(g)) }, style: statusStyle},
		{head: "CPU", width: 4, text: m.percent},
		{head: "MEM", width: 5, text: func(g api.Agent) string { return size(g.MemoryBytes) }},
		{head: "LEASES", width: 6, text: func(g api.Agent) string { return count(len(m.leases[g.Name])) }},
		{head: "PORTS", width: 11, text: func(g api.Agent) string { return dash(strings.Join(external(g), ",")) }},
	}
	if m.wide() {
		cols[0].width = min(name, 31)
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
	room, open := m.width-2, 0
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
	out := []string{m.title(), headStyle.Render(head)}
	visible := m.visible()
	for _, g := range visible {
		out = append(out, m.row(cols, g))
	}
	if len(visible) == 0 {
		out = append(out, "  "+m.empty())
	}
	for len(out) < 2+m.rows() {
		out = append(out, "")
	}
	if m.tall() {
		out = append(out, m.details()...)
	}
	return append(out, m.foot()...)
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
		return chosenStyle.Render(line)
	}
	return line
}

func (m *Model) empty() string {
	switch {
	case !m.ready:
		return "asking polisd ..."
	case m.filter != "":
		return "no agent matches " + strconv.Quote(m.filter) + "; esc drops the filter"
	}
	return "no agents yet: polisctl agents add NAME --base TYPE"
}

// details are the lines about the chosen agent.
func (m *Model) details() []string {
	out := []string{dimStyle.Render(strings.Repeat("-", m.width))}
	if m.filter != "" {
		shown := fmt.Sprintf("-- filter %q: %d of %d ", m.filter, len(m.shown()), len(m.agents))
		out[0] = shown + strings.Repeat("-", max(0, m.width-len(shown)))
	}
	for _, g := range m.agents {
		if g.Name == m.chosen {
			out = append(out, m.about(g)...)
		}
	}
	for len(out) < detailHeight {
		out = append(out, "")
	}
	return out
}

// state is an agent's state: one that waits does not work.
func state(g api.Agent) string {
	switch {
	case frozen(g):
		return frozenState
	case g.Waiting != nil:
		return waitingState
	}
	return string(g.Status)
}

// frozen reports whether an agent's processes are frozen until a person decides.
func frozen(g api.Agent) bool { return g.Waiting != nil && g.Waiting.For == api.WaitingThaw }

const (
	// waitingState is the state of an agent that waits for an answer or for a lease.
	waitingState = "waiting"
	frozenState  = "frozen"
)

func (m *Model) about(g api.Agent) []string {
	first := fmt.Sprintf("%s is %s: %s in %s", g.Name, g.Status, g.BaseType, g.Workspace)
	if g.StatusReason != "" {
		first += ", " + g.StatusReason
	}
	if w := g.Waiting; frozen(g) {
		first += fmt.Sprintf(", frozen since %s (key C): %s", w.Since.Local().Format(time.TimeOnly), w.What)
	} else if w != nil && w.For == api.WaitingApproval {
		first += fmt.Sprintf(", waits since %s for an answer to %s (key A)", w.Since.Local().Format(time.TimeOnly), w.ID)
	} else if w != nil {
		first += fmt.Sprintf(", waits since %s for %s", w.Since.Local().Format(time.TimeOnly), w.What)
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
		out[i] = clean(out[i])
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
