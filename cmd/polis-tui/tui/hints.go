package tui

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
)

// hint is a key that can be used now.
type hint struct{ key, does string }

// hints are the keys that matter for what is on the screen, the most important first; those of last always stay.
func (m *Model) hints() (first, last []hint) {
	selectMore := []hint{{"j k", "select"}, {"pgdn", "more"}}
	back := []hint{{"esc", "back"}}
	switch {
	case m.ask != nil:
		return []hint{{"y", "yes"}, {"any other key:", "no"}}, nil
	case m.palette != nil:
		return []hint{{"enter", "do it"}, {"up down", "select"}, {"tab", "complete"}}, []hint{{"esc", "cancel"}}
	case m.input != nil:
		return []hint{{"enter", "done"}, {"esc", "cancel"}}, nil
	case m.help:
		return selectMore[1:], []hint{{"any other key:", "back"}}
	case m.questions != nil:
		return append([]hint{{"a", "once"}, {"t", "task"}, {"g", "agent"}, {"r", "role"}, {"d", "deny"}, {"x", "end task"}}, selectMore...), back
	case m.pane != nil:
		out := []hint{{"j k", "scroll"}}
		if m.pane.agent != "" && m.pane.task == "" {
			out = append(out, hint{"m", "merge"}, hint{"u", "revert"}, hint{"D", "discard"}, hint{"i", "say"})
		}
		return append(out, hint{"r", "reload"}, hint{":", "commands"}), append(back, hint{"?", "help"})
	case m.cases != nil:
		return append([]hint{{"r", "resolve"}, {"t", "thaw"}, {"w", "rewind"}, {"x", "stop"}, {"l", "log"}, {"d", "diff"}}, selectMore...), back
	case m.taskScreen != nil:
		return append([]hint{{"d", "diff"}, {"enter", "output"}, {"r", "reload"}}, append(selectMore, hint{":", "commands"})...), back
	}
	out := []hint{}
	if g, ok := m.target(); ok {
		out = m.agentHints(g)
	}
	return append(out, hint{"/", "filter"}, hint{":", "commands"}), []hint{{"?", "help"}, {"q", "quit"}}
}

// agentHints are the keys that matter for an agent.
func (m *Model) agentHints(g api.Agent) []hint {
	out := []hint{{"enter", "log"}}
	switch {
	case frozen(g):
		out = append(out, hint{"C", "decide"})
	case agenttext.NeedsPerson(g):
		out = append(out, hint{"A", "answer"})
	case g.Waiting != nil:
		out = append(out, hint{"L", "locks"})
	}
	if m.fate(g) == string(api.MergePending) { // its merge failed
		out = append(out, hint{"K", "check"})
	}
	switch g.Status {
	case api.StatusRunning:
		out = append(out, hint{"i", "say"}, hint{"d", "diff"}, hint{"x", "stop"})
	case api.StatusStopped, api.StatusError:
		out = append(out, hint{"s", "start"}, hint{"i", "task"}, hint{"d", "diff"})
	case api.StatusIdle, api.StatusCreating:
		out = append(out, hint{"i", "task"}, hint{"d", "diff"})
	}
	switch m.fate(g) {
	case string(api.MergeMerged):
		return append(out, hint{"t", "tasks"}, hint{"u", "revert"})
	case string(api.QueueMerging), string(api.QueueChecking), "queued":
		return append(out, hint{"t", "tasks"})
	}
	return append(out, hint{"m", "merge"}, hint{"t", "tasks"}, hint{"D", "discard"})
}

// hintLine is the line of keys: as many as have room.
func (m *Model) hintLine() string {
	first, last := m.hints()
	for n := len(first); n >= 0; n-- {
		var words, styled []string
		for _, h := range slices.Concat(first[:n], last) {
			words = append(words, h.key+" "+h.does)
			styled = append(styled, keyStyle.Render(h.key)+" "+dimStyle.Render(h.does))
		}
		if n == 0 || ansi.StringWidth(strings.Join(words, "  ")) <= m.width {
			return ansi.Truncate(strings.Join(styled, "  "), m.width, "~")
		}
	}
	return ""
}
