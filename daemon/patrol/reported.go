package patrol

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"polis/daemon/api"
)

// Reported has the last finding about each agent: each is acted on once, and published once. The
// zero value has none.
type Reported struct{ last map[string]reportedAs }

// reportedAs has the class as which a finding was reported, and its case opened.
type reportedAs struct {
	reported
	as api.PatrolClass
}

// reported identifies a finding.
type reported struct {
	class    api.PatrolClass
	incident string
	since    time.Time
}

// reportedOf identifies a finding. One that an agent hangs is the same until the agent recovers, however often it
// does a little in between.
func reportedOf(incident string, f api.PatrolFinding) reported {
	if hangs(f.Class) {
		return reported{class: api.PatrolStalled, incident: incident}
	}
	return reported{f.Class, incident, f.Since}
}

// hangs reports whether a class is about a program that runs and gets nowhere.
func hangs(class api.PatrolClass) bool {
	return class == api.PatrolStalled || class == api.PatrolSpinning
}

// Begin reports whether to act on a finding about an incident now, and whether it is new. One that is not acted on
// has the reason in Skipped. What only corrects the records, or ends a program, is tried again.
func (r *Reported) Begin(incident string, f *api.PatrolFinding, dryRun bool) (act, news bool) {
	k := reportedOf(incident, *f)
	before, seen := r.last[f.Agent]
	seen = seen && before.reported == k
	switch {
	case dryRun:
		f.Skipped = "a dry run"
		return false, false
	case seen && f.Action != "reconcile" && f.Action != "end-program":
		f.Skipped = "it was done, or tried, when this was found first"
		return false, false
	}
	if r.last == nil {
		r.last = map[string]reportedAs{}
	}
	r.last[f.Agent] = reportedAs{k, f.Class}
	return true, !seen
}

// Forget drops the findings that are none any more. An agent that hung is one until it has recovered
// from that: one that spins moves all the time.
func (r *Reported) Forget(found []api.PatrolFinding, views []View) {
	now := map[string]bool{}
	for _, v := range views {
		k := r.last[v.Agent]
		now[v.Agent] = hangs(k.as) && k.incident == Incident(v.Observed) && !v.recovered(k.as)
	}
	for _, f := range found {
		now[f.Agent] = true
	}
	for name := range r.last {
		if !now[name] {
			delete(r.last, name)
		}
	}
}

// Conclude records in a finding the result of its action.
func Conclude(f *api.PatrolFinding, err error) {
	if err != nil {
		f.Skipped = api.AsError(err).Message
		return
	}
	f.Done = f.Action != api.OnStallReport
}

// Event is the event for a finding.
func Event(f api.PatrolFinding) api.Event {
	message := fmt.Sprintf("agent %s: %s: %s", f.Agent, f.Class, strings.Join(f.Evidence, "; "))
	switch {
	case f.Done:
		message += "; done: " + f.Action
	case f.Skipped != "":
		message += "; not done (" + f.Action + "): " + f.Skipped
	}
	return api.Event{Type: api.EventPatrol, Agent: f.Agent, Message: message, Data: map[string]any{"finding": f}}
}

// Agent is what the report of a cycle has of an agent.
func Agent(v View, w Waits) api.PatrolAgent {
	a := api.PatrolAgent{Agent: v.Agent, Workspace: v.Workspace, Status: v.Status, Task: v.Task, Waits: cmp.Or(w.For, v.Waits)}
	if a.Waits == "" && w.Connections > 0 {
		a.Waits = api.Count(w.Connections, "connection") + " to the outside"
	}
	if v.Err != nil {
		a.Error = v.Err.Error()
	}
	if v.Status == api.StatusRunning && v.Err == nil {
		a.QuietSeconds, a.UnchangedSeconds = v.Quiet.Round(time.Second).Seconds(), v.Unchanged.Round(time.Second).Seconds()
	}
	return a
}
