package daemon

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/events"
	"polis/daemon/isolation"
	"polis/daemon/server"
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
	return api.DaemonStatus{Reconcile: rep, Version: b.Version, PID: os.Getpid(), StartedAt: b.started, IsolationMode: isolation.Mode(b.Daemon.missingIsolation), Lost: b.Daemon.missingIsolation,
		Launcher: b.shims.launcher.Name(), CgroupMode: string(b.cg.Mode), Workspaces: b.Workspaces(), Agents: b.List(ctx, ""),
		Locks: b.locks.Stats().Leases, Conflicts: b.conflictCount(), Cases: b.cases.Digest(), Warnings: b.warned()}
}

func (d *Daemon) warned() []string {
	out := append([]string{}, isolation.Warnings(d.missingIsolation, d.live().Sandbox.Degraded == config.DegradedAllow)...)
	for _, w := range d.agents.Unsaved() {
		out = append(out, string(api.CodeStateNotSaved)+": the state of workspace "+w+" cannot be written; changes are refused until it can")
	}
	for _, n := range d.agents.RulesLost() {
		out = append(out, string(api.CodeStateCorrupt)+": the rules of agent "+n+" are lost, and it may read and write nothing: polisctl agents set "+n+" --role ROLE, or --read and --write GLOBS, sets its rules; --egress LIST its destinations")
	}
	for _, w := range d.gitWorkspaces("") {
		if err := w.integrity.Damage(); err != nil {
			e := api.AsError(err)
			out = append(out, string(e.Code)+": "+e.Message+"; "+e.Hint)
		}
	}
	if fault := d.totals.Fault(); fault != "" {
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
	up := 0
	as := d.agents.Statuses("")
	for _, status := range as {
		if status == api.StatusIdle || status == api.StatusRunning {
			up++
		}
	}
	degraded := ""
	if len(d.missingIsolation) > 0 {
		degraded = "isolation DEGRADED (no " + strings.Join(d.lostNames(), ", ") + "), "
	}
	return degraded + fmt.Sprintf("%s, %s (%d up), %s", api.Count(len(d.agents.Workspaces()), "workspace"), api.Count(len(as), "agent"), up, api.Count(d.locks.Stats().Leases, "lease"))
}

// Metrics returns the counters of all agents as Prometheus text.
func (b *backend) Metrics(ctx context.Context) string {
	as := b.List(ctx, "")
	sort.Slice(as, func(i, j int) bool { return as[i].Name < as[j].Name })
	var sb strings.Builder
	st := b.locks.Stats()
	fmt.Fprintf(&sb, "# HELP polis_leases Leases held now.\n# TYPE polis_leases gauge\npolis_leases %d\n", st.Leases)
	fmt.Fprintf(&sb, "# HELP polis_lock_conflicts_total Refused lease requests.\n# TYPE polis_lock_conflicts_total counter\npolis_lock_conflicts_total %d\n", st.Conflicts)
	for _, m := range []struct {
		name, help, typ string
		value           func(*api.Agent) (int64, bool)
	}{
		{"polis_agent_up", "Whether the agent has a sandbox now.", "gauge", func(a *api.Agent) (int64, bool) {
			if a.Status == api.StatusIdle || a.Status == api.StatusRunning {
				return 1, true
			}
			return 0, true
		}},
		{"polis_agent_memory_bytes", "Memory of the agent's sandbox.", "gauge", func(a *api.Agent) (int64, bool) { return a.MemoryBytes, a.Counters != nil }},
		{"polis_agent_reads_total", "Gated reads.", "counter", counter(func(c *api.Counters) int64 { return c.ReadCount })},
		{"polis_agent_writes_total", "Gated writes.", "counter", counter(func(c *api.Counters) int64 { return c.WriteCount })},
		{"polis_agent_reads_denied_total", "Refused reads.", "counter", counter(func(c *api.Counters) int64 { return c.ReadDenied })},
		{"polis_agent_writes_denied_total", "Refused writes.", "counter", counter(func(c *api.Counters) int64 { return c.WriteDenied })},
		{"polis_agent_read_latency_ns", "Moving average of a gated read.", "gauge", counter(func(c *api.Counters) int64 { return c.AvgReadLatency })},
		{"polis_agent_write_latency_ns", "Moving average of a gated write.", "gauge", counter(func(c *api.Counters) int64 { return c.AvgWriteLatency })},
	} {
		fmt.Fprintf(&sb, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.typ)
		for i := range as {
			if v, ok := m.value(&as[i]); ok {
				fmt.Fprintf(&sb, "%s{agent=%q,workspace=%q} %d\n", m.name, as[i].Name, as[i].Workspace, v)
			}
		}
	}
	return sb.String()
}

func counter(f func(*api.Counters) int64) func(*api.Agent) (int64, bool) {
	return func(a *api.Agent) (int64, bool) {
		if a.Counters == nil {
			return 0, false
		}
		return f(a.Counters), true
	}
}
