package daemon

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"polis/cgroup"
	"polis/daemon/agent/totals"
	"polis/daemon/host/launcher"
)

// newTotals returns what limits all agents together: on polis.slice under systemd, else on the
// directory above the agents' control groups.
func (d *Daemon) newTotals() *totals.Totals {
	return &totals.Totals{Wanted: func() totals.Limits { return totals.Of(d.live()) }, Set: d.setTotal, Mark: d.run.TotalMark()}
}

func (d *Daemon) setTotal(ctx context.Context, t totals.Limits) error {
	l := cgroup.Limits{MemoryBytes: t.MemoryBytes, Pids: t.Pids, CPUPercent: t.CPUPercent}
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
	// With its last agent's group the directory is removed, also between two steps of this.
	for range totalTries {
		if err = g.Ensure(l); !errors.Is(err, unix.ENODEV) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// totalTries bounds how often the directory is made again.
const totalTries = 10

// reloadTotals applies the limits after the configuration has changed.
func (d *Daemon) reloadTotals(ctx context.Context) {
	if err := d.totals.Reload(ctx); err != nil {
		d.Log.Error("limits of all agents together not applied", "err", err)
	}
}
