package launch

import (
	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/host/procstat"
)

// Capacity is the machine's capacity for agents of a workspace.
func (s *Shims) Capacity(w *agent.Workspace) (agent.Capacity, error) {
	total, _, err := HostMemory()
	if err != nil {
		return agent.Capacity{}, err
	}
	own := uint64(0)
	if !s.Systemd { // the limit of polis.slice is limits.total
		own = s.Cgroups.OwnMemoryLimit()
	}
	c := agent.Capacity{Pids: procstat.MaxPIDs()}.WithMemory(total, own)
	if c.FreeBytes, err = procstat.FreeBytes(w.Root.Dir()); err != nil {
		return c, api.Errorf(api.CodeInternal, "read the free space on the disk of workspace %s: %w", w.Name, err)
	}
	return c, nil
}

// HostMemory returns the machine's memory and the part that is available without swapping, in bytes.
func HostMemory() (total, available uint64, err error) {
	if total, available, err = procstat.Memory(); err != nil {
		return 0, 0, api.Errorf(api.CodeInternal, "read the machine's memory: %w", err)
	}
	return total, available, nil
}
