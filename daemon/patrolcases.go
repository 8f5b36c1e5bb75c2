package daemon

import (
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
	p.d.openCase(api.Case{State: api.CaseZombieDetected, Kind: string(f.Class), Workspace: f.Workspace, Agent: f.Agent, Generation: f.Generation, Task: f.Task,
		Incident: patrol.Incident(s.Observed), Evidence: evidence, Resolves: patrol.Resolves(f.Class), Next: f.Next})
}

// settle resolves the cases of the patrol's own classes whose finding is gone.
func (p *patroller) settle(found []api.PatrolFinding, views []patrol.View) {
	seen := make(map[string]patrol.View, len(views))
	for _, v := range views {
		seen[v.Agent] = v
	}
	still := map[string]bool{}
	for _, f := range found {
		still[f.Agent+" "+string(f.Class)] = true
	}
	for _, c := range p.d.cases.List("", false) {
		class := api.PatrolClass(c.Kind)
		if c.Kind == caseBreaker {
			p.settleBreaker(c, seen)
			continue
		}
		if !classes[class] || still[c.Agent+" "+c.Kind] {
			continue
		}
		how := "the agent was removed"
		if v, ok := seen[c.Agent]; ok && v.Workspace == c.Workspace {
			how = patrol.Settled(class, c.Incident, v)
		}
		if how != "" {
			p.d.settleCases(func(o api.Case) bool { return o.ID == c.ID }, how)
		}
	}
}

// settleBreaker resolves the case of an agent that a breaker froze and that does not run any more; a
// thaw is an event.
func (p *patroller) settleBreaker(c api.Case, seen map[string]patrol.View) {
	v, ok := seen[c.Agent]
	var how string
	switch {
	case !ok || v.Workspace != c.Workspace:
		how = "the agent was removed"
	case v.Status == api.StatusStopped || v.Status == api.StatusError:
		how = "the agent is " + string(v.Status)
	default:
		return
	}
	p.d.settleCases(func(o api.Case) bool { return o.ID == c.ID }, how)
}
