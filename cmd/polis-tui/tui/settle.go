package tui

import (
	"time"
)

// settle is how long the keys that act do nothing after a question, or an agent, took the place of another: what was typed
// before it was on the screen is not meant for it.
const settle = 700 * time.Millisecond

// covered reports whether something else than the list of agents is on the screen.
func (m *Model) covered() bool {
	return m.pane != nil || m.taskScreen != nil || m.questions != nil || m.cases != nil || m.palette != nil || m.help
}

// unsettled reports whether keys would act on an agent that nobody has chosen: it took the place of another in the list just
// now, or while the list was not on the screen.
func (m *Model) unsettled() bool {
	if m.taskScreen != nil || m.pane != nil && m.pane.agent != "" {
		return false // what is open names its agent
	}
	return m.unseen || m.now().Sub(m.moved) < settle
}

// tookPlace says what happened to the selection.
func (m *Model) tookPlace() string {
	if m.chosen == "" {
		return "the selected agent is no longer in the list"
	}
	return "agent " + clean(m.chosen) + " took the place of the selected one in the list"
}
