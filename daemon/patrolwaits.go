package daemon

import (
	"fmt"
	"strconv"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/isolation"
	"polis/daemon/patrol"
	"polis/daemon/procstat"
	"polis/lockd"
)

// leaseWaiters are the agents that wait for a lease, with its path.
func (d *Daemon) leaseWaiters() map[string]string {
	out := map[string]string{}
	for _, l := range d.locks.List(lockd.Filter{}) {
		for _, w := range l.Waiting {
			out[w.Holder] = lockd.FilePath(l.Path)
		}
	}
	return out
}

// reportedWaits returns what an agent waits for as its shim reports it, which the patrol knows of every
// agent.
func reportedWaits(v agent.Living) patrol.Waits {
	if w := v.Waiting; w != nil && w.For == api.WaitingApproval {
		return patrol.Waits{For: "the answer to question " + w.ID}
	}
	if w := v.Waiting; w != nil && w.For == api.WaitingThaw {
		return patrol.Waits{For: "a thaw: " + w.What}
	}
	return patrol.Waits{}
}

// waitsOf returns what a suspect waits for. What cannot be found out is a reason to leave it alone.
func (d *Daemon) waitsOf(v agent.Living, leases map[string]string) patrol.Waits {
	if p, ok := leases[v.Agent]; ok {
		return patrol.Waits{For: "a lease on " + strconv.Quote(p)}
	}
	if w := reportedWaits(v); w.For != "" {
		return w
	}
	if v.InitPID == 0 {
		return patrol.Waits{}
	}
	at, _ := d.cgroupPath(v.Agent)
	g, err := d.cg.Group(at)
	if err == nil {
		var procs []int
		if procs, err = g.Procs(); err == nil {
			if pid := procstat.Stopped(procs); pid != 0 {
				return patrol.Waits{For: fmt.Sprintf("process %d, which is stopped by a signal or a debugger", pid)}
			}
		}
	}
	if err != nil {
		return patrol.Waits{For: "something unknown: " + err.Error()}
	}
	if isolation.Lacks(d.missingIsolation, isolation.Network) {
		return patrol.Waits{For: "something unknown: it shares the host's network, whose connections say nothing of it"}
	}
	n, err := procstat.Connections(v.InitPID)
	if err != nil {
		return patrol.Waits{For: "something unknown: " + err.Error()}
	}
	return patrol.Waits{Connections: n}
}
