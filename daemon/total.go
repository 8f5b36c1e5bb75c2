package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"polis/cgroup"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/launcher"
)

// totals bounds all agents together: polis.slice where systemd has it, else the
// directory above the agents' control groups. The kernel removes an empty one
// with the last agent, and its limits with it, so they are set with every agent.
type totals struct{ mu sync.Mutex }

func totalLimits(c config.Config) cgroup.Limits {
	t := c.Limits.Total
	return cgroup.Limits{MemoryBytes: int64(t.MemoryMB) << 20, Pids: int64(t.Pids), CPUPercent: int64(t.CPU)}
}

// limitTotal makes the limits of all agents together hold.
func (d *Daemon) limitTotal(ctx context.Context) error {
	d.totals.mu.Lock()
	defer d.totals.mu.Unlock()
	l := totalLimits(d.live())
	none := l == (cgroup.Limits{})
	// Limits that are none are set only where there were some: what the
	// administrator gave the slice is not ours to take away.
	mark := d.run.TotalMark()
	_, err := os.Stat(mark)
	if none && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("limits of all agents: %w", err)
	}
	if err := d.setTotal(ctx, l); err != nil {
		return api.Errorf(api.CodeCgroupFailed, "limits of all agents: %w", err).WithHint("see [limits.total] in polisd.toml; polisctl doctor says which control groups there are")
	}
	if none {
		return os.Remove(mark)
	}
	return nil
}

// unlimitTotal takes them away when no agent is left.
func (d *Daemon) unlimitTotal(ctx context.Context) error {
	d.totals.mu.Lock()
	defer d.totals.mu.Unlock()
	mark := d.run.TotalMark()
	if _, err := os.Stat(mark); err != nil {
		return nil //nolint:nilerr // none were set
	}
	return errors.Join(d.setTotal(ctx, cgroup.Limits{}), os.Remove(mark))
}

func (d *Daemon) setTotal(ctx context.Context, l cgroup.Limits) error {
	if s, ok := d.shims.launcher.(*launcher.Systemd); ok {
		return s.Limit(ctx, l)
	}
	g, err := d.cg.Group("/" + d.bridge.Table())
	if err != nil {
		return err
	}
	if l == (cgroup.Limits{}) && !g.Exists() {
		return nil
	}
	return g.Ensure(l)
}

// retotal sets the limits after the configuration has changed. A limit that
// what is in use does not fit in holds as soon as it can: with the next agent.
func (d *Daemon) retotal(ctx context.Context) {
	err := d.limitTotal(ctx)
	d.mu.Lock()
	d.totalFault = ""
	if err != nil {
		d.totalFault = err.Error()
	}
	d.mu.Unlock()
	if err != nil {
		d.Log.Error("all agents together are not limited as configured", "err", err)
	}
}
