package daemon

import (
	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/host/procstat"
)

// capacity is the machine's capacity for agents of a workspace.
func (d *Daemon) capacity(w *agent.Workspace) (agent.Capacity, error) {
	total, _, err := hostMemory()
	if err != nil {
		return agent.Capacity{}, err
	}
	own := uint64(0)
	if !d.Systemd { // the limit of polis.slice is limits.total
		own = d.cg.OwnMemoryLimit()
	}
	c := agent.Capacity{Pids: procstat.MaxPIDs()}.WithMemory(total, own)
	if c.FreeBytes, err = procstat.FreeBytes(w.Root.Dir()); err != nil {
		return c, api.Errorf(api.CodeInternal, "read the free space on the disk of workspace %s: %w", w.Name, err)
	}
	return c, nil
}
