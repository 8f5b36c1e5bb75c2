package daemon

import (
	"context"
	"time"

	"polis/daemon/agent"
	"polis/daemon/git/branches"
	"polis/daemon/host/isolation"
	"polis/daemon/host/procstat"
)

// stands reports whether no process of an agent's sandbox has run since v was measured.
func (d *Daemon) stands(v agent.Living) bool {
	if v.InitPID == 0 || v.Err != nil {
		return false
	}
	at, _ := d.shims.CgroupPath(v.Agent)
	g, err := d.cg.Group(at)
	if err != nil {
		return false
	}
	cpu, err := g.CPUTime()
	return err == nil && cpu == v.Sample.CPU
}

// measureLiving adds the kernel's counters to what the shim reports of an agent that runs, unless
// nothing of it has run since it was measured. last is what was measured before, or nil.
func (d *Daemon) measureLiving(v, last *agent.Living) {
	if v.InitPID == 0 || v.Err != nil || v.Stood {
		return
	}
	at, _ := d.shims.CgroupPath(v.Agent)
	g, err := d.cg.Group(at)
	if err != nil {
		v.Err = err
		return
	}
	if v.Sample.CPU, err = g.CPUTime(); err != nil {
		v.Err = err
		return
	}
	read, stored := g.DiskBytes()
	v.Sample.Disk, v.Sample.Stored = read+stored, stored
	v.Sample.Refs = d.refsOf(*v)
	if v.TakeCounters(last) {
		return
	}
	procs, err := g.Procs()
	if err != nil {
		v.Err = err
		return
	}
	v.Sample.Calls = procstat.CallBytes(procs)
	v.Began, _ = procstat.Began(v.PID) //nolint:errcheck // it has ended
	if d.shims.Lacks(isolation.Network) {
		return
	}
	if v.Sample.Net, err = procstat.NetBytes(v.InitPID); err != nil {
		v.Err = err
	}
}

// refsOf is a fingerprint of an agent's HEAD, its branch, and the refs that it made.
func (d *Daemon) refsOf(v agent.Living) uint64 {
	d.mu.Lock()
	w := d.workspaces[v.Workspace]
	d.mu.Unlock()
	if w == nil || w.branches == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	tip := ""
	if tips, err := w.branches.Last(ctx); err == nil {
		tip = tips.Of[v.Agent]
	}
	return branches.Fingerprint(w.git.Bare().Dir, v.Agent, tip, v.OwnedRefs)
}
