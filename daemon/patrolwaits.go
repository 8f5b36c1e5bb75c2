package daemon

import (
	"errors"
	"time"

	"polis/daemon/agent"
	"polis/daemon/config"
	"polis/daemon/host/isolation"
	"polis/daemon/host/procstat"
	"polis/daemon/patrol"
	"polis/daemon/patrol/verdict"
	"polis/lockd"
)

// patrolLimits are the times of a configuration.
func patrolLimits(c config.Config) patrol.Limits {
	t := c.Patrol
	return patrol.Limits{Done: time.Duration(t.DoneAfter),
		Limits: verdict.Limits{Stalled: time.Duration(t.StalledAfter), Spinning: time.Duration(t.SpinningAfter), Model: time.Duration(t.ModelAfter)}}
}

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

// waitsOf returns what a suspect waits for, other than a lease.
func (d *Daemon) waitsOf(v agent.Living) patrol.Waits {
	if w := patrol.ReportedWaits(v.Waiting); w.For != "" || v.InitPID == 0 {
		return w
	}
	return patrol.ProbedWaits(probe{d, v})
}

// probe implements patrol.Probe.
type probe struct {
	d *Daemon
	v agent.Living
}

func (p probe) Stopped() (int, error) {
	at, _ := p.d.shims.CgroupPath(p.v.Agent)
	g, err := p.d.cg.Group(at)
	if err != nil {
		return 0, err
	}
	procs, err := g.Procs()
	if err != nil {
		return 0, err
	}
	return procstat.Stopped(procs), nil
}

func (p probe) Connections() (int, error) {
	if p.d.shims.Lacks(isolation.Network) {
		return 0, errors.New("it shares the host's network, whose connections say nothing of it")
	}
	return procstat.Connections(p.v.InitPID)
}
