package patrol

import (
	"cmp"
	"fmt"
	"time"

	"polis/daemon/api"
)

// Waits is what an agent waits for.
type Waits struct {
	// For says it in words; empty if it waits for nothing that is known. It is a reason to leave
	// the agent alone for as long as it lasts.
	For string
	// Connections are those to the outside that are open.
	Connections int
	// Unknown is set if that could not be found out.
	Unknown bool
}

// Finding is what is wrong with a suspect, and ok false if nothing is: it waits.
func Finding(now time.Time, s Suspect, w Waits, lim Limits, onStall string) (f api.PatrolFinding, ok bool) {
	f = api.PatrolFinding{Class: s.Class, Agent: s.Agent, Workspace: s.Workspace, Generation: s.Generation, Task: s.Task, Since: s.Since.UTC()}
	say := func(format string, args ...any) { f.Evidence = append(f.Evidence, fmt.Sprintf(format, args...)) }
	since := now.Sub(s.Since).Round(time.Second)
	switch s.Class {
	case api.PatrolSessionDead:
		say("its state is %s", s.Status)
		say("its shim is not among the processes in %d consecutive looks", looks)
		f.Action, f.Next = "reconcile", "polisctl agents start "+s.Agent+" brings it back with all its files"
	case api.PatrolAgentDead:
		say("its state is Running")
		say("its shim says that no command runs, in %d consecutive looks", looks)
		f.Action, f.Next = "reconcile", "polisctl agents list shows the state that it has then"
	case api.PatrolStuckInDone, api.PatrolTaskClosed:
		if w.For != "" {
			return f, false
		}
		say("its task %s has ended %s ago (%s)", s.Task, since, s.Ended)
		say("its program still runs, and has changed nothing since")
		f.Action, f.Next = "end-program", "polisctl agents watch "+s.Agent+" shows what it printed last"
	case api.PatrolStalled:
		if w.For != "" || w.Connections > 0 && (lim.Waiting() == 0 || now.Sub(s.Since) < lim.Waiting()) {
			return f, false
		}
		f.Evidence = append(f.Evidence, s.Evidence...)
		if w.Connections > 0 {
			say("%s to the outside open, on which nothing came for that time", api.Count(w.Connections, "connection"))
		} else {
			say("no connection to the outside is open, and it waits for no lease")
		}
		f.Action, f.Next = cmp.Or(onStall, api.OnStallReport), fmt.Sprintf("polisctl agents watch %s shows what it printed last; polisctl send %s TEXT types into it", s.Agent, s.Agent)
	case api.PatrolSpinning:
		if w.For != "" {
			return f, false
		}
		f.Evidence = append(f.Evidence, s.Evidence...)
		f.Action, f.Next = cmp.Or(onStall, api.OnStallReport), fmt.Sprintf("polisctl agents watch %s shows what it prints; polisctl agents stop %s ends it", s.Agent, s.Agent)
	}
	return f, true
}
