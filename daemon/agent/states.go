package agent

import (
	"slices"
	"strings"

	"polis/daemon/api"
)

// noState is the state before an agent exists and after its removal.
const noState api.Status = ""

// A verb is a request. An event happens without one.
const (
	verbAdd    = "add"
	verbStart  = "start"
	verbRun    = "run"
	verbSend   = "send"
	verbStop   = "stop"
	verbRemove = "remove"
	verbForce  = "remove --force"

	eventReady   = "ready"
	eventExit    = "exit"
	eventFailure = "failure"
)

// Transition is a permitted change from a state to another.
type Transition struct {
	From, To api.Status
	// By is the verb or the event that causes it.
	By string
	// Beyond is why polis has a transition that the diagram of seed 000 ("State Transitions")
	// lacks; empty for those of the diagram.
	Beyond string
}

// Transitions returns every permitted transition. Any other is refused.
func Transitions() []Transition {
	const (
		creating, idle, running = api.StatusCreating, api.StatusIdle, api.StatusRunning
		stopped, failed         = api.StatusStopped, api.StatusError
	)
	return []Transition{
		{noState, creating, verbAdd, ""},
		{creating, idle, eventReady, ""},
		{creating, failed, eventFailure, ""},
		{idle, running, verbStart, ""},
		{idle, running, verbRun, ""},
		{running, idle, eventExit, ""},
		{running, stopped, verbStop, ""},
		{stopped, running, verbStart, ""},
		{idle, noState, verbRemove, ""},
		{stopped, noState, verbRemove, ""},
		{running, noState, verbForce, ""},
		{failed, noState, verbForce, ""},

		{idle, noState, verbForce, "unsaved work needs --force in every state"},
		{stopped, noState, verbForce, "unsaved work needs --force in every state"},
		{stopped, running, verbRun, "property 24: a stopped agent is started first"},
		{idle, stopped, verbStop, "an idle agent has a sandbox, with servers that run in it"},
		{running, failed, eventFailure, "OOM_KILLED, and a shim's death"},
		{idle, failed, eventFailure, "OOM_KILLED, and a shim's death"},
		{stopped, failed, eventFailure, "what cannot be started, or taken down"},
		{failed, running, verbStart, "a person has read the reason and tries again"},
		{failed, running, verbRun, "a task brings it up first, as a stopped agent"},
		{failed, stopped, verbStop, "what still runs in it must be stoppable"},
	}
}

// May reports whether any transition leads from one state to another.
func May(from, to api.Status) bool {
	return from == to || slices.ContainsFunc(Transitions(), func(t Transition) bool { return t.From == from && t.To == to })
}

// Verbs returns the verbs that a state allows, in the table's order.
func Verbs(s api.Status) []string {
	events := []string{eventReady, eventExit, eventFailure}
	var out []string
	for _, t := range Transitions() {
		if t.From == s && !slices.Contains(events, t.By) && !slices.Contains(out, t.By) {
			out = append(out, t.By)
		}
	}
	if s == api.StatusRunning {
		out = append(out, verbSend)
	}
	return out
}

// already reports whether an agent is in the state that the verb leads to. The verb then does
// nothing and returns no error.
func already(s api.Status, verb string) bool {
	return s == api.StatusRunning && verb == verbStart || s == api.StatusStopped && verb == verbStop
}

// permit returns an error for a verb that an agent's state does not allow.
func permit(name string, s api.Status, verb string) error {
	if already(s, verb) || slices.Contains(Verbs(s), verb) {
		return nil
	}
	return refusal(name, s, verb)
}

// refusal is the error of a verb that is not possible now.
func refusal(name string, s api.Status, verb string) error {
	allowed := slices.DeleteFunc(Verbs(s), func(v string) bool { return v == verb })
	e := api.Errorf(api.CodeBadState, "agent %s is %s: %s is not possible now", name, s, verb).
		With("state", s).With("verb", verb).With("allowed", append([]string{}, allowed...))
	if len(allowed) == 0 {
		return e.WithHint("it is still being made: wait until polisctl agents list shows it Idle")
	}
	hint := "possible now: " + strings.Join(allowed, ", ")
	switch {
	case verb == verbRun && s == api.StatusRunning:
		hint += "; polisctl agents watch -f " + name + " shows what it works on"
	case s == api.StatusError:
		hint += "; polisctl agents start " + name + " brings it back with all its files"
	}
	return e.WithHint("%s", hint)
}
