package daemon

import (
	"fmt"
	"strings"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
)

// caseBreaker is the kind of the case of an agent that a circuit breaker froze.
const caseBreaker = "breaker"

// froze opens the case of an agent that a breaker froze; with nil it was thawed.
func (d *Daemon) froze(a *agent.Agent, f *api.Frozen) {
	name, created := a.Name(), a.Copy().CreatedAt
	if f == nil {
		d.settleCases(func(c api.Case) bool { return c.Kind == caseBreaker && c.OfAgent(a.WS.Name, name, created) }, "it was thawed")
		return
	}
	evidence := []string{agent.FrozenText(*f)}
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
	d.openCase(api.Case{State: api.CasePending, Kind: caseBreaker, Workspace: a.WS.Name, Agent: name, AgentCreated: created, Incident: f.At.UTC().Format(time.RFC3339Nano), Evidence: evidence,
		Resolves: "it is thawed, stopped or removed",
		Next:     fmt.Sprintf("polisctl agents diff %s shows what it changed; polisctl agents thaw %s lets it go on, polisctl agents stop %s ends it", name, name, name)})
}
