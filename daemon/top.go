package daemon

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"polis/cgroup"
	"polis/daemon/agent/totals"
	"polis/daemon/api"
	"polis/daemon/host/procstat"
	"polis/daemon/launch"
)

// Top measures the resource use of every running agent.
func (b *backend) Top(ctx context.Context) (api.Top, error) {
	limits := totals.Of(b.live())
	top := api.Top{Agents: []api.TopAgent{}, Polisd: process(os.Getpid()),
		TotalLimits: api.TotalLimits{MemoryBytes: limits.MemoryBytes, CPUPercent: int(limits.CPUPercent), Pids: int(limits.Pids)}}
	for _, a := range b.List(ctx, "") {
		if a.ShimPID == 0 {
			continue
		}
		row, err := b.use(a)
		if errors.Is(err, cgroup.ErrNotFound) {
			continue // it is stopping
		}
		if err != nil {
			return top, api.Errorf(api.CodeCgroupFailed, "measure agent %s: %w", a.Name, err)
		}
		top.Total.Add(row.Use)
		top.Agents = append(top.Agents, row)
	}
	top.Host.CPUs = runtime.NumCPU()
	var err error
	top.Host.MemoryBytes, top.Host.AvailableBytes, err = launch.HostMemory()
	top.Time = time.Now()
	return top, err
}

func (b *backend) use(a api.Agent) (api.TopAgent, error) {
	path, _ := b.shims.CgroupPath(a.Name)
	g, err := b.cg.Group(cmp.Or(a.CgroupPath, path))
	if err != nil {
		return api.TopAgent{}, err
	}
	u, err := g.Usage()
	if err != nil {
		return api.TopAgent{}, err
	}
	row := api.TopAgent{Name: a.Name, Workspace: a.Workspace, Status: a.Status, LimitHits: a.LimitHits, Waiting: a.Waiting, Models: a.Models, Shim: process(a.ShimPID),
		MemoryLimitBytes: int64(a.MemoryLimitMB) << 20, PidsLimit: a.PidsLimit, CPUPercent: a.CPUPercent,
		Use: api.Use{CPUMicros: uint64(u.CPU.Microseconds()), ThrottledMicros: uint64(u.Throttled.Microseconds()), MemoryBytes: u.MemoryBytes,
			ReadBytes: u.ReadBytes, WriteBytes: u.WriteBytes, Pids: u.Pids, OpenFiles: u.OpenFiles}}
	if p := u.Pressure; p != nil {
		row.Pressure = &api.Pressure{CPU: p.CPU, Memory: p.Memory, IO: p.IO}
	}
	return row, nil
}

// process returns the resource use of one process, or zeros if it has exited.
func process(pid int) api.Process {
	cpu, memory := procstat.Use(pid)
	return api.Process{PID: pid, CPUMicros: uint64(cpu.Microseconds()), MemoryBytes: memory}
}
