package tui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
)

// lookMsg is what polisd said of everything.
type lookMsg struct {
	agents []api.Agent
	leases map[string][]api.Lock
	queue  map[string]api.QueueEntry
	asked  []api.Approval
	open   []api.Case
	at     time.Time
	err    error
}

// outputMsg has the last lines agents wrote.
type outputMsg map[string][]string

// tickMsg comes every tickEvery; soonMsg shortly after an event.
type (
	tickMsg struct{}
	soonMsg struct{}
)

const (
	tickEvery = 2 * time.Second
	// Events come in bursts: one look does for all that come within this time.
	soon = 150 * time.Millisecond
)

func tick() tea.Cmd { return tea.Tick(tickEvery, func(time.Time) tea.Msg { return tickMsg{} }) }

// lookSoon has the screen look again, once for many calls.
func (m *Model) lookSoon() tea.Cmd {
	if m.soon {
		return nil
	}
	m.soon = true
	return tea.Tick(soon, func(time.Time) tea.Msg { return soonMsg{} })
}

// look asks polisd for everything; while one look is under way another is
// only remembered.
func (m *Model) look() tea.Cmd {
	if m.looking {
		m.again = true
		return nil
	}
	m.looking, m.again = true, false
	d, workspace, now := m.daemon, m.workspace, m.now
	return m.tasks.cmd(lookLimit, func(ctx context.Context) tea.Msg {
		s := lookMsg{leases: map[string][]api.Lock{}, queue: map[string]api.QueueEntry{}}
		if s.agents, s.err = d.Agents(ctx, workspace); s.err != nil {
			return s
		}
		s.at = now()
		locks, err := d.Locks(ctx)
		if err != nil {
			s.err = err
			return s
		}
		for _, l := range locks {
			s.leases[l.Holder] = append(s.leases[l.Holder], l)
		}
		queues, err := d.Queues(ctx, workspace)
		if err != nil {
			s.err = err
			return s
		}
		for _, q := range queues {
			for _, e := range q.Entries {
				s.queue[e.Agent] = e
			}
		}
		if s.open, s.err = d.Cases(ctx, workspace, false); s.err != nil {
			return s
		}
		for _, g := range s.agents {
			if g.Waiting != nil && g.Waiting.For == api.WaitingApproval {
				s.asked, s.err = d.Approvals(ctx, workspace)
				break
			}
		}
		slices.SortFunc(s.agents, func(a, b api.Agent) int { return cmp.Or(agenttext.ByNeed(a, b), cmp.Compare(a.Name, b.Name)) })
		return s
	})
}

// looked takes a look over.
func (m *Model) looked(s lookMsg) tea.Cmd {
	m.looking, m.lookErr = false, s.err
	if s.err == nil {
		m.ready = true
		cpu := make(map[string]usage, len(s.agents))
		for _, g := range s.agents {
			cpu[g.Name] = m.cpu[g.Name].next(g.CPUMicros, s.at)
		}
		m.agents, m.leases, m.queue, m.cpu = s.agents, s.leases, s.queue, cpu
		m.choose()
		m.casesRead(s.open)
	}
	cmd := m.outputs()
	if s.err == nil {
		cmd = tea.Batch(cmd, m.questionsRead(s.asked))
	}
	if m.again {
		return tea.Batch(cmd, m.lookSoon())
	}
	return cmd
}

// outputs requests the last lines of the agents on the screen, or only of the chosen one if the
// others' are not shown.
func (m *Model) outputs() tea.Cmd {
	if m.reading || m.pane != nil {
		return nil
	}
	var names []string
	for _, g := range m.visible() {
		if g.Name == m.chosen || m.wide() {
			names = append(names, g.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	m.reading = true
	d := m.daemon
	return m.tasks.cmd(lookLimit, func(ctx context.Context) tea.Msg {
		out := outputMsg{}
		for _, name := range names {
			r, err := d.Logs(ctx, name, 2*outputLines, false)
			if err != nil {
				continue // it may just have been removed; the next look says
			}
			// Some of the last lines may be empty, which says nothing here.
			lines, _, err := read(r, 2*outputLines, true, prose)
			if cerr := r.Close(); err == nil && cerr == nil {
				lines = slices.DeleteFunc(lines, func(s string) bool { return strings.TrimSpace(s) == "" })
				out[name] = tail(lines, outputLines)
			}
		}
		return out
	})
}

// usage is how much of a processor an agent used lately.
type usage struct {
	micros  int64
	at      time.Time
	percent int // of one processor; -1: not known yet
}

// next is the usage after another look. Looks too close to each other say
// nothing of the time between.
func (u usage) next(micros int64, at time.Time) usage {
	passed := at.Sub(u.at)
	switch {
	case micros <= 0:
		return usage{percent: -1}
	case u.at.IsZero() || micros < u.micros: // new, or started again
		return usage{micros: micros, at: at, percent: -1}
	case passed < time.Second:
		return u
	}
	return usage{micros: micros, at: at, percent: int((micros - u.micros) * 100 / passed.Microseconds())}
}
