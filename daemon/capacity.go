package daemon

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/agent"
	"polis/daemon/api"
)

// capacity is the machine's capacity for agents of a workspace. In a container it is the
// container's limit.
func (d *Daemon) capacity(w *agent.Workspace) (agent.Capacity, error) {
	total, _, err := hostMemory()
	if err != nil {
		return agent.Capacity{}, err
	}
	c := agent.Capacity{MemoryBytes: int64(total)}
	// polis.slice is not considered: its limit is limits.total.
	if !d.Systemd {
		if own, err := d.cg.Own(); err == nil && own != "/" {
			if g, err := d.cg.Group(own); err == nil {
				if s, err := g.Stats(); err == nil && s.MemoryLimit > 0 {
					c.MemoryBytes = min(c.MemoryBytes, int64(s.MemoryLimit))
				}
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/pid_max"); err == nil {
		c.Pids, _ = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) //nolint:errcheck // 0: not known
	}
	var st unix.Statfs_t
	if err := unix.Statfs(w.Root.Dir(), &st); err != nil {
		return c, api.Errorf(api.CodeInternal, "read the free space on the disk of workspace %s: %w", w.Name, &os.PathError{Op: "statfs", Path: w.Root.Dir(), Err: err})
	}
	c.FreeBytes = int64(min(st.Bavail*uint64(st.Bsize), 1<<62))
	return c, nil
}
