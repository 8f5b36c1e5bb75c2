package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"polis/daemon/host/isolation"
)

// StopAgents reports whether a request to stop includes the agents: always by hand; under systemd
// only if polisd is to be stopped, not restarted.
func (d *Daemon) StopAgents(ctx context.Context) bool { return d.shims.StopAgents(ctx) }

// StopGrace is the configured time that agents' programs may take to exit.
func (d *Daemon) StopGrace() time.Duration { return time.Duration(d.live().Limits.StopGrace) }

// Close stops the daemon. With stopAgents every agent is stopped and nothing of a running polis
// is left on the host; otherwise shims and their agents continue.
func (d *Daemon) Close(ctx context.Context, stopAgents bool) error {
	var errs []error
	if d.api != nil {
		actx, cancel := context.WithTimeout(ctx, 5*time.Second)
		errs = append(errs, d.api.Close(actx))
		cancel()
	}
	// Serve closes it, if it was called.
	if d.Listener != nil {
		if err := d.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close the admin socket: %w", err))
		}
	}
	errs = append(errs, d.closeProxy(), d.closeMetrics())
	d.stopUpkeep()
	d.races.Close()
	d.closeSetups()
	d.closeConflictWatches()
	d.closeTracked()
	d.closeBranches()
	d.closeQueues()
	if d.agents != nil {
		if stopAgents {
			errs = append(errs, d.agents.StopAll(ctx))
		}
		d.agents.Close()
	}
	if d.upkeep != nil {
		d.upkeep.models.Round() // what was used since the last one
	}
	if d.locks != nil {
		errs = append(errs, d.locks.Close())
	}
	errs = append(errs, d.closeTimelines()) // the last checkpoints have receipts
	d.closeReceipts()
	errs = append(errs, d.gits.Close(ctx), d.closeShared(ctx))
	return errors.Join(errs...)
}

// closeShared removes what all agents share, if no agent is left that needs it.
func (d *Daemon) closeShared(ctx context.Context) error {
	if d.shims == nil {
		return nil
	}
	alive, err := d.shims.Living(ctx)
	if err != nil || len(alive) > 0 {
		return errors.Join(err, d.leaveNetwork(ctx))
	}
	shared := d.shims.Lacks(isolation.Network)
	var left []string
	if !shared {
		if left, err = d.bridge.List(ctx); err != nil {
			return fmt.Errorf("list network namespaces: %w", err)
		}
	}
	var errs []error
	dead, err := d.shims.List(ctx)
	errs = append(errs, err)
	for _, name := range dead {
		errs = append(errs, d.shims.Clear(ctx, name))
	}
	for _, name := range left {
		errs = append(errs, d.bridge.Remove(ctx, name))
	}
	if !shared {
		errs = append(errs, d.shims.LeaveDocker(ctx), d.bridge.RemoveShared(ctx))
	}
	errs = append(errs, unmountLayers(d.listedRoots()), d.shims.CloseShared(ctx))
	for _, p := range []string{d.run.LockSocket(), d.run.NetNS(), d.run.Agents()} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if !d.Systemd {
		if err := os.Remove(d.run.Socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leaveNetwork prepares the network of agents that continue for the next polisd. It may be of an earlier version if
// the program was replaced: that knows no barrier.
func (d *Daemon) leaveNetwork(ctx context.Context) error {
	if d.shims.Lacks(isolation.Network) || !programReplaced() {
		return nil
	}
	return d.bridge.LowerBarrier(ctx)
}

// programReplaced reports whether the file that this process was started from is another one now: a package is
// being installed. The next polisd may be of an earlier version.
func programReplaced() bool {
	path, err := os.Executable()
	if err != nil {
		return true
	}
	running, err := os.Stat("/proc/self/exe")
	if err != nil {
		return true
	}
	installed, err := os.Stat(strings.TrimSuffix(path, " (deleted)"))
	return err != nil || !os.SameFile(running, installed)
}
