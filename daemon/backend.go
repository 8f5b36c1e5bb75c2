package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/isolation"
	"polis/daemon/http/metrics"
	"polis/daemon/http/server"
	"polis/daemon/store/events"
)

// backend joins daemon and manager to what the API needs.
type backend struct {
	*Daemon
	*agent.Manager
}

var _ server.Backend = (*backend)(nil)

// Events is the daemon's hub.
func (b *backend) Events() *events.Hub { return b.hub }

// Types reads the base types, so that an edited file takes effect at once.
func (b *backend) Types() (map[string]config.BaseType, error) { return b.Daemon.Types() }

// Types reads the base types.
func (d *Daemon) Types() (map[string]config.BaseType, error) {
	c := d.live()
	return config.LoadTypes(c.AgentsDir, c.Sandbox)
}

// baseType reads one base type.
func (d *Daemon) baseType(name string) (config.BaseType, bool, error) {
	c := d.live()
	return config.LoadType(c.AgentsDir, c.Sandbox, name)
}

// Status describes the daemon.
func (b *backend) Status(ctx context.Context) api.DaemonStatus {
	b.mu.Lock()
	rep := b.reconciled
	b.mu.Unlock()
	return api.DaemonStatus{Reconcile: rep, ConfigFile: b.ConfigFile, Version: b.Version, PID: os.Getpid(), StartedAt: b.started, IsolationMode: isolation.Mode(b.Daemon.shims.Missing()), Lost: b.Daemon.shims.Missing(),
		Launcher: b.shims.LauncherName(), CgroupMode: string(b.cg.Mode), Workspaces: b.Workspaces(), Agents: b.List(ctx, ""),
		Locks: b.locks.Stats().Leases, Conflicts: b.conflictCount(), Cases: b.cases.Digest(), Warnings: b.warned()}
}

func (d *Daemon) warned() []string {
	out := append([]string{}, isolation.Warnings(d.shims.Missing(), d.live().Sandbox.Degraded == config.DegradedAllow)...)
	out = append(out, d.agents.Warnings()...)
	if e := d.shims.Blocked(time.Time{}); e != nil {
		out = append(out, string(e.Code)+": "+e.Message+": "+e.Hint)
	}
	for _, w := range d.gitWorkspaces("") {
		if err := w.integrity.Damage(); err != nil {
			e := api.AsError(err)
			out = append(out, string(e.Code)+": "+e.Message+"; "+e.Hint)
		}
		out = append(out, w.timeline.Faults(func(agent string) bool { _, err := d.agents.WorkspaceOf(agent); return err == nil })...)
	}
	if fault := d.shims.TotalsFault(); fault != "" {
		out = append(out, fault)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(out, d.warnings...)
}

// Health takes the locks that a hung daemon would hold: those of the manager and the lock table.
// It also queries the kernel side of the network.
func (b *backend) Health(ctx context.Context) error { return b.Probe(ctx) }

// Probe is the health check that the watchdog calls.
func (d *Daemon) Probe(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.agents.Workspaces()
		d.locks.Stats()
		d.live()
		d.hub.Last()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a lock of the daemon is not available: %w", context.Cause(ctx))
	}
}

// Summary returns the line for systemctl status.
func (d *Daemon) Summary() string {
	return metrics.Summary(len(d.agents.Workspaces()), slices.Collect(maps.Values(d.agents.Statuses(""))), d.locks.Stats().Leases, d.shims.MissingNames())
}

// Metrics returns all metrics as Prometheus text.
func (b *backend) Metrics(ctx context.Context) ([]byte, error) { return b.metrics.Text(ctx) }
