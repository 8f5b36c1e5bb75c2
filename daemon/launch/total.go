package launch

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"polis/cgroup"
	"polis/daemon/agent/totals"
	"polis/daemon/host/launcher"
	"polis/fusefs/fuseuring"
)

// newTotals returns what limits all agents together: on polis.slice under systemd, else on the
// directory above the agents' control groups.
func (s *Shims) newTotals() *totals.Totals {
	return &totals.Totals{Wanted: func() totals.Limits { return totals.Of(s.Config()) }, Set: s.setTotal, Mark: s.Run.TotalMark()}
}

func (s *Shims) setTotal(ctx context.Context, t totals.Limits) error {
	l := cgroup.Limits{MemoryBytes: t.MemoryBytes, Pids: t.Pids, CPUPercent: t.CPUPercent}
	if systemd, ok := s.launcher.(*launcher.Systemd); ok {
		return systemd.Limit(ctx, l)
	}
	g, err := s.Cgroups.Group(s.groupsPath())
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

// ReloadTotals applies the limits at the start, and after the configuration has changed.
func (s *Shims) ReloadTotals(ctx context.Context) {
	if err := s.totals.Reload(ctx); err != nil {
		s.Log.Error("limits of all agents together not applied", "err", err)
	}
}

// TotalsFault returns why the limits are not applied; "" if they are.
func (s *Shims) TotalsFault() string { return s.totals.Fault() }

// CloseShared removes what all shims share, once no shim lives.
func (s *Shims) CloseShared(ctx context.Context) error {
	return errors.Join(s.totals.Lift(ctx), s.removeGroup(ctx), fuseuring.RestoreMarked(s.Run.RingMark()))
}

// removeGroup removes the directory above the agents' control groups; under systemd that is a
// slice, which systemd removes.
func (s *Shims) removeGroup(ctx context.Context) error {
	if s.Systemd {
		return nil
	}
	g, err := s.Cgroups.Group(s.groupsPath())
	if err != nil {
		return err
	}
	return g.Remove(ctx)
}
