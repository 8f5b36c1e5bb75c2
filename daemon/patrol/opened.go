package patrol

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
)

// KindBreaker is the kind of the case of an agent that a circuit breaker froze.
const KindBreaker = "breaker"

// classes are those of the patrol, whose cases the facts of a cycle settle.
var classes = map[api.PatrolClass]bool{api.PatrolSessionDead: true, api.PatrolAgentDead: true, api.PatrolStuckInDone: true,
	api.PatrolTaskClosed: true, api.PatrolStalled: true, api.PatrolSpinning: true}

// Case returns the case of a finding after its action; ok is false if the action ended what was found.
func Case(s Suspect, f api.PatrolFinding) (c api.Case, ok bool) {
	if f.Done && f.Action != api.OnStallNudge {
		return c, false
	}
	evidence := f.Evidence
	if f.Skipped != "" {
		evidence = append(evidence[:len(evidence):len(evidence)], "not done ("+f.Action+"): "+f.Skipped)
	}
	return api.Case{State: api.CaseZombieDetected, Kind: string(f.Class), Workspace: f.Workspace, Agent: f.Agent, AgentCreated: s.Created, Generation: f.Generation, Task: f.Task,
		Incident: Incident(s.Observed), Evidence: evidence, Resolves: Resolves(f.Class), Next: f.Next}, true
}

// KindTask is the kind of the case of a task that was lost at a restart.
const KindTask = "task"

// TaskCase returns the case of a task that was lost at a restart. It is resolved when a person retries or
// dismisses the task, and not by what the agent does otherwise.
func TaskCase(workspace string, created time.Time, t api.Task) api.Case {
	evidence := []string{"task " + t.ID + " is " + t.Result, fmt.Sprintf("prompt: %q", api.Shorten(t.Prompt, 200))}
	if t.Interruptions > 1 {
		evidence = append(evidence, "it was interrupted "+api.Count(t.Interruptions, "time"))
	}
	return api.Case{State: api.CasePending, Kind: KindTask, Workspace: workspace, Agent: t.Agent, AgentCreated: created, Task: t.ID, Incident: t.ID, Evidence: evidence,
		Resolves: "the task is retried or dismissed",
		Next:     fmt.Sprintf("polisctl tasks retry %[1]s does it again; polisctl tasks cancel %[1]s dismisses it", t.ID)}
}

// BreakerCase returns the case of an agent that a circuit breaker froze. text says which one and why.
func BreakerCase(workspace, agent string, created time.Time, f api.Frozen, text string) api.Case {
	evidence := []string{text}
	if t := f.Trip; t != nil {
		if len(t.Processes) > 0 {
			evidence = append(evidence, "processes: "+strings.Join(t.Processes, ", "))
		}
		for _, p := range t.Paths {
			evidence = append(evidence, fmt.Sprintf("last: %q", p))
		}
		if t.FrozenMicros < 0 {
			evidence = append(evidence, "a process was not frozen in time: it waits in the kernel, and freezes when that ends")
		}
	}
	return api.Case{State: api.CasePending, Kind: KindBreaker, Workspace: workspace, Agent: agent, AgentCreated: created, Incident: f.At.UTC().Format(time.RFC3339Nano), Evidence: evidence,
		Resolves: "it is thawed, stopped or removed",
		Next:     fmt.Sprintf("polisctl agents diff %s shows what it changed; polisctl agents thaw %s lets it continue, polisctl agents stop %s ends it", agent, agent, agent)}
}

// BeforeCase reports whether a checkpoint is from before what a case is about: the task, or what a breaker
// with this freeze counted (nil: it is not of a breaker).
func BeforeCase(c api.Case, f *api.Frozen, s api.Snapshot) bool {
	if s.Covers != api.SnapshotFiles || s.Time.Before(c.AgentCreated) {
		return false
	}
	if f == nil {
		return c.Task != "" && s.Why == api.SnapshotByTask && c.Agent+"."+strconv.Itoa(s.Task) == c.Task
	}
	began := f.At
	if f.Trip != nil {
		began = began.Add(-time.Duration(f.Trip.Seconds * float64(time.Second)))
	}
	return s.Time.Before(began)
}

// WithRewind adds to a case the checkpoint to which the agent's files can be brought back.
func WithRewind(c api.Case, s api.Snapshot) api.Case {
	c.Rewind = s.ID
	c.Next += fmt.Sprintf("; polisctl rewind %s --to %s brings its files back to what they were before", c.Agent, s.ID)
	return c
}

// Ended is a case that has ended without a person, and the fact because of which.
type Ended struct{ ID, How string }

// EndedCases returns those of the open cases that have ended: of agents that are gone, and of
// findings that are gone. A case that was opened after the cycle began may be about an agent that
// was not observed.
func EndedCases(open []api.Case, began time.Time, found []api.PatrolFinding, views []View) []Ended {
	seen := make(map[string]View, len(views))
	for _, v := range views {
		seen[v.Agent] = v
	}
	still := map[string]bool{}
	for _, f := range found {
		still[f.Agent+" "+string(f.Class)] = true
		if hangs(f.Class) {
			still[f.Agent+" "+string(api.PatrolStalled)], still[f.Agent+" "+string(api.PatrolSpinning)] = true, true
		}
	}
	var out []Ended
	for _, c := range open {
		if c.Opened.After(began) {
			continue
		}
		class := api.PatrolClass(c.Kind)
		how := ""
		switch v, ok := seen[c.Agent]; {
		case !ok || !c.OfAgent(v.Workspace, v.Agent, v.Created):
			how = "the agent was removed"
		case c.Kind == KindBreaker:
			how = breakerSettled(v)
		case classes[class] && !still[c.Agent+" "+c.Kind]:
			how = Settled(class, c.Incident, v)
		}
		if how != "" {
			out = append(out, Ended{c.ID, how})
		}
	}
	return out
}

// breakerSettled returns why the case of an agent that a breaker froze has ended, "" if it has not: it
// does not run any more. A thaw is an event.
func breakerSettled(v View) string {
	if v.Status == api.StatusStopped || v.Status == api.StatusError {
		return "the agent is " + string(v.Status)
	}
	return ""
}
