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

// totals limits all agents together. The limits are set on polis.slice under systemd, else on the
// directory above the agents' control groups. The kernel removes the empty directory with the last
// agent, so the limits are set again with every agent.
type totals struct{ mu sync.Mutex }

func totalLimits(c config.Config) cgroup.Limits {
	t := c.Limits.Total
	return cgroup.Limits{MemoryBytes: int64(t.MemoryMB) << 20, Pids: int64(t.Pids), CPUPercent: int64(t.CPU)}
}

// limitTotal applies the limits of all agents together.
func (d *Daemon) limitTotal(ctx context.Context) error {
	d.totals.mu.Lock()
	defer d.totals.mu.Unlock()
	l := totalLimits(d.live())
	none := l == (cgroup.Limits{})
	// Limits are reset only if polis has set some: the administrator can have set others on the
	// slice.
	mark := d.run.TotalMark()
	_, err := os.Stat(mark)
	if none && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("limits of all agents: %w", err)
	}
	if err := d.setTotal(ctx, l); err != nil {
		return api.Errorf(api.CodeCgroupFailed, "limits of all agents: %w", err).WithHint("see [limits.total] in polisd.toml; polisctl doctor shows the available control groups")
	}
	if none {
		return os.Remove(mark)
	}
	return nil
}

// unlimitTotal removes the limits when no agent is left.
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

// retotal applies the limits after the configuration has changed. A limit below the present use is
// applied with the next agent.
func (d *Daemon) retotal(ctx context.Context) {
	err := d.limitTotal(ctx)
	d.mu.Lock()
	d.totalFault = ""
	if err != nil {
		d.totalFault = err.Error()
	}
	d.mu.Unlock()
	if err != nil {
		d.Log.Error("limits of all agents together not applied", "err", err)
	}
}
