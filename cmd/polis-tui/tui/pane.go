package tui

import (
	"context"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
)

// What a pane shows.
const (
	paneLog    = "log"
	paneDiff   = "diff"
	paneEvents = "events"
	paneLocks  = "locks"
	paneLeft   = "leftovers"
	paneCheck  = "check"
)

// pane is a text that has the whole screen.
type pane struct {
	kind  string
	agent string // empty: of all
	task  string // of one task of the agent, if set

	lines     []string
	top, left int
	end       bool // stay at the end while lines come
	loading   bool
	again     bool // read it again after that
	loaded    bool
	cut       bool // there is more than is kept
	err       error
}

// linesMsg is the text of a pane.
type linesMsg struct {
	pane  *pane
	lines []string
	cut   bool
	err   error
}

func (m *Model) open(kind, agent string) tea.Cmd {
	m.pane = &pane{kind: kind, agent: agent, end: kind != paneDiff}
	return m.reload(true)
}

// reload asks for the pane's text again; a diff, which costs, only if forced.
func (m *Model) reload(force bool) tea.Cmd {
	p := m.pane
	if p == nil || p.kind == paneEvents || p.kind == paneDiff && !force {
		return nil
	}
	if p.loading {
		p.again = p.again || force // what is being read may be of before
		return nil
	}
	p.loading, p.again = true, false
	get, n := m.log, maxLogLines
	switch p.kind {
	case paneDiff:
		get, n = m.diff, maxDiffLines
	case paneLocks:
		get = m.lockList
	case paneLeft:
		get = m.leftoverList
	case paneCheck:
		get = m.checkLog
	}
	if id := p.task; id != "" {
		get = func(ctx context.Context, _ string) (io.ReadCloser, error) { return m.taskText(ctx, p.kind, id) }
	}
	agent, last, tidy := p.agent, p.kind != paneDiff, prose
	if p.kind == paneDiff {
		tidy = verbatim
	}
	return m.tasks.cmd(lookLimit, func(ctx context.Context) tea.Msg {
		msg := linesMsg{pane: p}
		r, err := get(ctx, agent)
		if err != nil {
			msg.err = err
			return msg
		}
		msg.lines, msg.cut, msg.err = read(r, n, last, tidy)
		if err := r.Close(); msg.err == nil {
			msg.err = err
		}
		if last {
			msg.lines = tail(msg.lines, n)
		}
		return msg
	})
}

func (m *Model) log(ctx context.Context, agent string) (io.ReadCloser, error) {
	return m.daemon.Logs(ctx, agent, maxLogLines, false)
}

func (m *Model) diff(ctx context.Context, agent string) (io.ReadCloser, error) {
	return m.daemon.Diff(ctx, agent, api.DiffRequest{})
}

// taskText is the diff of a task, also after it was merged, or its output.
func (m *Model) taskText(ctx context.Context, kind, id string) (io.ReadCloser, error) {
	if kind == paneDiff {
		return m.daemon.TaskDiff(ctx, id, false)
	}
	return m.daemon.TaskOutput(ctx, id)
}

// arrived takes a pane's text over, unless the pane has been closed since.
func (m *Model) arrived(msg linesMsg) tea.Cmd {
	p := m.pane
	if p == nil || p != msg.pane {
		return nil
	}
	p.loading, p.loaded, p.err = false, true, msg.err
	if msg.err == nil {
		p.lines, p.cut = msg.lines, msg.cut
	}
	m.scroll(0)
	if p.again {
		return m.reload(true)
	}
	return nil
}

// text is what the open pane shows.
func (m *Model) text() []string {
	p := m.pane
	switch {
	case p.kind == paneEvents:
		lines := make([]string, 0, len(m.events))
		for _, e := range m.events {
			lines = append(lines, eventLine(e))
		}
		return tail(lines, maxEvents)
	case p.err != nil:
		return wrap(errText(p.err), m.inner(), 8)
	case !p.loaded:
		return []string{"reading ..."}
	case len(p.lines) == 0 && p.kind == paneDiff && p.task != "":
		return []string{"task " + p.task + " has committed nothing"}
	case len(p.lines) == 0 && p.task != "":
		return []string{"task " + p.task + " has printed nothing"}
	case len(p.lines) == 0 && p.kind == paneDiff:
		return wrap("agent "+p.agent+" has changed nothing that is not merged; t lists its tasks, and d there shows what one of them changed", m.inner(), 4)
	case len(p.lines) == 0 && p.kind == paneLocks:
		return []string{"agent " + p.agent + " holds no locks"}
	case len(p.lines) == 0 && p.kind == paneLeft:
		return []string{"the last command of agent " + p.agent + " left nothing running"}
	case len(p.lines) == 0:
		return []string{"agent " + p.agent + " has written nothing yet"}
	}
	return p.lines
}

// scroll moves the pane by so many lines; at the end it stays there.
func (m *Model) scroll(by int) {
	p := m.pane
	most := max(0, len(m.text())-m.bodyHeight())
	if by != 0 {
		if p.end {
			p.top = most
		}
		p.top = max(0, min(most, p.top+by))
		p.end = p.kind != paneDiff && p.top == most
	}
	p.top = min(p.top, most)
	if p.end {
		p.top = most
	}
}

// bodyHeight is the number of a pane's lines on the screen: all but its
// border and what is below.
func (m *Model) bodyHeight() int { return max(1, m.height-2-len(m.foot())) }

func (p *pane) title() string {
	switch {
	case p.task != "" && p.kind == paneLog:
		return "polis  output of task " + clean(p.task)
	case p.task != "":
		return "polis  " + p.kind + " of task " + clean(p.task)
	case p.agent != "":
		return "polis  " + p.kind + " of " + p.agent
	}
	return "polis  " + p.kind
}

// command is what shows all of what the pane shows the beginning or the end of.
func (p *pane) command() string {
	switch {
	case p.task != "" && p.kind == paneDiff:
		return "tasks show --diff " + p.task
	case p.task != "":
		return "tasks show --output " + p.task
	}
	return map[string]string{paneLog: "agents watch", paneDiff: "diff", paneLocks: "agents locks", paneLeft: "agents leftovers", paneCheck: "queue log"}[p.kind] + " " + p.agent
}

// paneView is the screen when a pane is open.
func (m *Model) paneView() []string {
	p := m.pane
	m.scroll(0)
	lines, h := m.text(), m.bodyHeight()
	from, to := p.top, min(len(lines), p.top+h)
	where := fmt.Sprintf("%d-%d of %d", from+1, to, len(lines))
	if p.cut {
		where += " kept; all: polisctl " + p.command()
	}
	var out []string
	for _, line := range lines[from:to] {
		more := ansi.StringWidth(line) > p.left+m.inner()
		if line = ansi.Cut(line, p.left, p.left+m.inner()); more {
			line = ansi.Truncate(line, m.inner()-1, "") + "~" // key right shows it
		}
		if p.kind == paneDiff && p.err == nil {
			line = diffStyle(line, lines, p.left).Render(line)
		}
		out = append(out, line)
	}
	return append(m.framed(titleStyle.Render(p.title()), m.current(where, false), out, h, ""), m.foot()...)
}

func eventLine(e api.Event) string {
	agent := e.Agent
	if agent == "" {
		agent = "-"
	}
	text := agenttext.Named(e.Message, e.Data)
	if e.Code != "" {
		text += " [" + string(e.Code) + "]"
	}
	return verbatim(fmt.Sprintf("%s  %-18s %-10s %s", e.Time.Local().Format(time.TimeOnly), e.Type, agent, text))
}
