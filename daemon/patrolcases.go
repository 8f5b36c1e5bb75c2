package daemon

import (
	"time"

	"polis/daemon/api"
	"polis/daemon/patrol"
)

// classes are those of the patrol, whose cases the facts of a cycle settle.
var classes = map[api.PatrolClass]bool{api.PatrolSessionDead: true, api.PatrolAgentDead: true, api.PatrolStuckInDone: true,
	api.PatrolTaskClosed: true, api.PatrolStalled: true, api.PatrolSpinning: true}

// open opens a case for a finding that the patrol could not end itself.
func (p *patroller) open(s patrol.Suspect, f api.PatrolFinding) {
	if f.Done && f.Action != api.OnStallNudge {
		return
	}
	evidence := f.Evidence
	if f.Skipped != "" {
		evidence = append(evidence[:len(evidence):len(evidence)], "not done ("+f.Action+"): "+f.Skipped)
	}
	p.d.openCase(api.Case{State: api.CaseZombieDetected, Kind: string(f.Class), Workspace: f.Workspace, Agent: f.Agent, AgentCreated: s.Created, Generation: f.Generation, Task: f.Task,
		Incident: patrol.Incident(s.Observed), Evidence: evidence, Resolves: patrol.Resolves(f.Class), Next: f.Next})
}

// settle resolves the cases of agents that are gone, and those of the patrol's own classes whose
// finding is gone. A case that was opened after the cycle began may be about an agent that was not
// observed.
func (p *patroller) settle(began time.Time, found []api.PatrolFinding, views []patrol.View) {
	seen := make(map[string]patrol.View, len(views))
	for _, v := range views {
		seen[v.Agent] = v
	}
	still := map[string]bool{}
	for _, f := range found {
		still[f.Agent+" "+string(f.Class)] = true
	}
	for _, c := range p.d.cases.List("", false) {
		if c.Opened.After(began) {
			continue
		}
		class := api.PatrolClass(c.Kind)
		how := ""
		switch v, ok := seen[c.Agent]; {
		case !ok || !c.OfAgent(v.Workspace, v.Agent, v.Created):
			how = "the agent was removed"
		case c.Kind == caseBreaker:
			how = breakerSettled(v)
		case classes[class] && !still[c.Agent+" "+c.Kind]:
			how = patrol.Settled(class, c.Incident, v)
		}
		if how != "" {
			p.d.settleCases(func(o api.Case) bool { return o.ID == c.ID }, how)
		}
	}
}

// breakerSettled returns why the case of an agent that a breaker froze has ended, "" if it has not: it
// does not run any more. A thaw is an event.
func breakerSettled(v patrol.View) string {
	if v.Status == api.StatusStopped || v.Status == api.StatusError {
		return "the agent is " + string(v.Status)
	}
	return ""
}
