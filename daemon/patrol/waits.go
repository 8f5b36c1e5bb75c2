package patrol

import (
	"fmt"
	"strconv"

	"polis/daemon/api"
)

// Probe reads from the kernel what the processes of an agent wait for.
type Probe interface {
	// Stopped returns a process that a signal or a debugger has stopped; 0 if there is none.
	Stopped() (pid int, err error)
	// Connections counts the open ones to the outside.
	Connections() (int, error)
}

// ReportedWaits returns what an agent waits for as its shim reports it, which the patrol knows of every
// agent.
func ReportedWaits(w *api.Waiting) Waits {
	switch {
	case w != nil && w.For == api.WaitingApproval:
		return Waits{For: "the answer to question " + w.ID}
	case w != nil && w.For == api.WaitingThaw:
		return Waits{For: "a thaw: " + w.What}
	case w != nil && w.For == api.WaitingLease:
		return LeaseWaits(w.Path)
	}
	return Waits{}
}

// LeaseWaits returns that an agent waits for the lease on path.
func LeaseWaits(path string) Waits { return Waits{For: "a lease on " + strconv.Quote(path)} }

// ProbedWaits returns what a suspect waits for as the kernel reports it. What cannot be found out is
// a reason to leave the agent alone.
func ProbedWaits(p Probe) Waits {
	pid, err := p.Stopped()
	if err != nil {
		return unknownWaits(err)
	}
	if pid != 0 {
		return Waits{For: fmt.Sprintf("process %d, which is stopped by a signal or a debugger", pid)}
	}
	n, err := p.Connections()
	if err != nil {
		return unknownWaits(err)
	}
	return Waits{Connections: n}
}

func unknownWaits(err error) Waits {
	return Waits{For: "something unknown: " + err.Error(), Unknown: true}
}
