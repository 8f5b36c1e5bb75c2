package patrol

import (
	"fmt"

	"polis/daemon/api"
)

// Incident names the incarnation of an agent's program that a finding is about: names, generations
// and numbers of processes are all given out again.
func Incident(o Observed) string {
	return fmt.Sprintf("%d/%d/%d.%d/%s", o.Created.UnixNano(), o.Generation, o.PID, o.Began, o.Task)
}

// Resolves is the fact that ends a finding of a class.
func Resolves(class api.PatrolClass) string {
	switch class {
	case api.PatrolSessionDead:
		return "its shim lives again, or the agent is stopped or removed"
	case api.PatrolAgentDead:
		return "its state is no longer Running, or its program runs"
	case api.PatrolStuckInDone, api.PatrolTaskClosed:
		return "its program ends"
	case api.PatrolStalled:
		return "it makes progress again for a while, or its program ends"
	case api.PatrolSpinning:
		return "it changes something again for a while, or its program ends"
	}
	return ""
}

// Settled returns the fact because of which a case that was opened for a finding has ended, "" if
// the observation of the agent does not show one. It is for cases that no finding of the cycle is
// about. An agent that could not be observed settles nothing, nor does one
// that did something once: see [verdict.Recovery].
func Settled(class api.PatrolClass, incident string, v View) string {
	switch {
	case v.Status != api.StatusRunning && v.Status != api.StatusIdle && v.Status != api.StatusCreating:
		return "the agent is " + string(v.Status) // by its records: nothing need be observed
	case v.Err != nil:
		return ""
	case Incident(v.Observed) != incident && v.Shim:
		return "the program that it was about has ended"
	}
	switch class {
	case api.PatrolSessionDead, api.PatrolAgentDead:
		if v.Shim && (v.Program || v.Status == api.StatusIdle) {
			return "it lives"
		}
	case api.PatrolStuckInDone, api.PatrolTaskClosed:
		if v.Shim && !v.Program {
			return "its program has ended"
		}
	case api.PatrolStalled:
		if v.Moving {
			return "it makes progress again"
		}
	case api.PatrolSpinning:
		if v.Changing {
			return "it changes something again"
		}
	}
	return ""
}
